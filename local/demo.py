"""`python -m local.demo`: the real CDK CLI deploys, updates and destroys the application on a local AWS.

Exit status 0 only if every step succeeded, every resource of every template was found in its service as the template
asks for it, the changed setting arrived, and nothing was left. With `--kube real` the cluster is a real one, which answers
a chat completion after the deployment and after the update, and holds nothing of the application in the end. Exit status 2
for settings that are not usable, before anything starts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from delivery_source import DeliverySource
from local.account import Account, Row
from local.cdk_cli import CdkCli, CdkError
from local.emulator import ACCOUNT, Emulator
from local.kube import sandbox
from local.kube.api_client import ApiClient, ApiError
from local.kube.binaries import BinariesMissing
from local.kube.chart_repository import ChartError
from local.kube.live_service import LiveService, left_in_cluster
from local.kube.settings_here import unusable_settings
from local.serve.openai_client import OpenAiClient
from settings import Settings, SettingsError
from tools.cdk_context import cdk_context

_PROMPT = "Explain the benefits of prefill/decode disaggregation."


class DemoError(Exception):
    """A step did not do what it claims."""


_FAILURES = (
    DemoError,
    CdkError,
    BinariesMissing,
    ChartError,
    ApiError,
    httpx.HTTPError,
    LookupError,
    OSError,
    EOFError,
    RuntimeError,
)


@dataclass(slots=True, kw_only=True)
class Demo:
    """One run; prints as it goes."""

    emulator: Emulator
    settings: Settings
    started: float = field(default_factory=time.monotonic)

    def run(self) -> str:
        """The summary line; raises DemoError or CdkError."""
        account = Account(emulator=self.emulator)
        self._say(f"emulator at {self.emulator.endpoint}, its log in {self.emulator.log_file}")
        # Another value than the one that is set.
        change = {"MAX_MODEL_LEN": "4096" if self.settings.max_model_len == 8192 else "8192"}
        plain, changed = CdkCli(emulator=self.emulator), CdkCli(emulator=self.emulator, settings=change)
        with ThreadPoolExecutor() as pool:
            first = pool.submit(plain.synth, self.emulator.folder / "cdk.out")
            second = pool.submit(changed.synth, self.emulator.folder / "cdk.out.changed")
            pool.submit(plain.bootstrap).result()
            assembly, changed_assembly = first.result(), second.result()
        before = account.inventory()
        self._say("bootstrapped and synthesized")

        plain.deploy(assembly)
        rows = account.compare(assembly)
        self._say("deployed")
        _print_outputs(account.outputs(assembly))
        _print_table(rows)
        _check(rows)
        self._ask()

        changed.deploy(changed_assembly)
        updated = account.compare(changed_assembly)
        _check(updated)
        if moved := _replaced(rows, updated):
            raise DemoError(f"a changed model length replaced {', '.join(sorted(moved))}")
        if not any(row.status == "UPDATE_COMPLETE" for row in updated):
            raise DemoError("the changed setting reached no resource")
        self._say(f"updated with {_as_text(change)}: nothing was replaced, the cluster holds the new manifest")
        self._ask()

        if self.settings.termination_protection:
            for stack in {row.stack for row in rows}:
                account.client("cloudformation").update_termination_protection(StackName=stack, EnableTerminationProtection=False)
            self._say("termination protection switched off, as a person has to before a destroy")
        self._destroy_ray_serve(changed, changed_assembly)
        changed.destroy(changed_assembly)
        left = sorted(account.inventory() - before) + [f"{row.type} {row.physical_id}" for row in account.gone(updated)]
        if left:
            raise DemoError("left over: " + ", ".join(left))
        self._say("destroyed: every service lists what it listed before the first deployment")
        stacks = len({row.stack for row in rows})
        return (
            f"{len(rows)} resources in {stacks} stacks deployed, updated and destroyed; 0 differences, 0 left over, "
            f"{self._seconds():.0f} s"
        )

    def _ask(self) -> None:
        """A chat completion through the Service, streamed."""
        if self.emulator.kube == "recorded":
            return
        service = self._service()
        print(f"\n{service.table()}\n")
        client = OpenAiClient(url=service.url())
        (model,) = client.models()
        self._say(f"{model} at {client.url}, streamed: {_PROMPT}")
        pieces = 0
        for piece in client.stream(model=model, text=_PROMPT, max_tokens=24):
            print(piece, end="", flush=True)
            pieces += bool(piece)
        print()
        if not pieces:
            raise DemoError("the chat completion had no token")

    def _destroy_ray_serve(self, cli: CdkCli, assembly: Path) -> None:
        """The last stack alone, to see that the cluster holds nothing of it."""
        if self.emulator.kube == "recorded":
            return
        api = self._service().api
        cli.destroy(assembly, "RayServeStack")
        left = left_in_cluster(api)
        if left:
            raise DemoError("left over in the cluster: " + ", ".join(sorted(left)))
        self._say("destroyed the ray-serve stack: the cluster holds nothing of it but KubeRay's definitions")

    def _service(self) -> LiveService:
        _, kubeconfig = self.emulator.kube_client
        return LiveService.only_one(ApiClient.of_kubeconfig(kubeconfig))

    def _seconds(self) -> float:
        return time.monotonic() - self.started

    def _say(self, text: str) -> None:
        print(f"[{self._seconds():5.1f} s] {text}", flush=True)


def _settings(*, real: bool) -> Settings:
    """Raises SettingsError for what no deployment takes, and for what this machine cannot follow."""
    context = cdk_context()
    # The account is that of cdk.json: the emulator has any, and the caller's credentials have no part in this.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CDK_")}
    if DeliverySource.load(context=context, environ=environ):
        raise SettingsError(["SOURCE_...: with them there is a pipeline, and this deploys one stage by itself; allowed is none"])
    settings = Settings.load(context=context, environ=environ)
    if real and (problems := unusable_settings(settings)):
        raise SettingsError(problems)
    return settings


def _check(rows: list[Row]) -> None:
    problems = [f"{row.stack} {row.logical_id} ({row.type}): {row.problem}" for row in rows if row.problem]
    if problems:
        raise DemoError("the account is not what the templates say:\n  " + "\n  ".join(problems))


def _replaced(before: list[Row], after: list[Row]) -> set[str]:
    """Logical ids whose physical id changed."""
    old = {(row.stack, row.logical_id): row.physical_id for row in before}
    return {row.logical_id for row in after if old.get((row.stack, row.logical_id), row.physical_id) != row.physical_id}


def _print_outputs(outputs: Mapping[str, Mapping[str, str]]) -> None:
    for stack, values in outputs.items():
        for name, value in values.items():
            if not name.startswith("ExportsOutput"):
                print(f"  {stack} {name} = {value}")


def _print_table(rows: list[Row]) -> None:
    width = shutil.get_terminal_size((140, 24)).columns
    for row in rows:
        state = f"DIFFERS: {row.problem}" if row.problem else "as in the template"
        print(f"  {row.type:38} {row.logical_id:44.44} {row.status:16} {state} {row.physical_id}"[:width])


def _as_text(settings: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def main() -> int:
    """Run once on a fresh emulator."""
    parser = argparse.ArgumentParser(prog="python -m local.demo", description="Deploy, update and destroy on a local AWS")
    parser.add_argument("name", nargs="?", default="demo", help="of the run's folder, so that runs can be told apart")
    parser.add_argument("--kube", choices=("recorded", "real"), default="recorded", help="what is behind the EKS cluster")
    asked = parser.parse_args()
    try:
        settings = _settings(real=asked.kube == "real")
    except SettingsError as error:
        print(f"make local: {error}", file=sys.stderr)
        return 2
    if asked.kube == "real" and not sandbox.sandboxed():
        try:
            return sandbox.run([sys.executable, "-m", "local.demo", *sys.argv[1:]])
        except sandbox.SandboxError as error:
            print(error, file=sys.stderr)
            return 1
    fresh = Emulator(name=asked.name, region=settings.region, account=settings.account or ACCOUNT, kube=asked.kube)
    try:
        with fresh as emulator:
            for chart, origin in emulator.chart_origins.items():
                print(f"chart {chart}: {origin}")
            summary = Demo(emulator=emulator, settings=settings).run()
    except _FAILURES as error:
        print(f"make local FAILED: {error}", file=sys.stderr)
        print(f"The emulator's log: {fresh.log_file}", file=sys.stderr)
        return 1
    print(f"make local: {summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
