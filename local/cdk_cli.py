"""Runs the real CDK command line against the emulator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.emulator import ROOT, Emulator


class CdkError(Exception):
    """The CLI ended with an error; the text is what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdkCli:
    """`cdk` of node_modules with .venv first on the PATH; `settings` are environment variables of the application.

    `application` is the command that runs another app than the one of cdk.json. Every method raises CdkError when the
    CLI reports a failure.
    """

    emulator: Emulator
    settings: Mapping[str, str] = field(default_factory=dict)
    application: str | None = None

    def synth(self, assembly: Path) -> Path:
        """Synthesize the application into a folder, without any AWS call."""
        other = ("--app", self.application) if self.application else ()
        self._run("synth", "--quiet", "--output", str(assembly), *other)
        return assembly

    def bootstrap(self) -> str:
        """Create the CDKToolkit stack."""
        # The CLI's default policy, spelled out: ministack mistakes an empty list parameter for a list with one entry.
        return self._run(
            "bootstrap",
            f"aws://{self.emulator.account}/{self.emulator.region}",
            "--cloudformation-execution-policies",
            "arn:aws:iam::aws:policy/AdministratorAccess",
            app=False,
        )

    def deploy(self, assembly: Path) -> str:
        """Create or update all stacks of the assembly."""
        return self._run("deploy", "--all", "--require-approval", "never", "--progress", "events", "--app", str(assembly))

    def destroy(self, assembly: Path, stacks: str = "--all") -> str:
        """Delete all stacks of the assembly, or those that a pattern selects, in reverse order."""
        return self._run("destroy", stacks, "--force", "--app", str(assembly))

    def _run(self, *arguments: str, app: bool = True) -> str:
        path = os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ["PATH"]])
        environment = {
            **self.emulator.environment,
            "PATH": path,
            "CI": "true",
            "NO_COLOR": "1",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_VALIDATION": "false",
            "REGION": self.emulator.region,
            **self.settings,
        }
        environment.pop("VIRTUAL_ENV", None)
        result = subprocess.run(
            [ROOT / "node_modules" / ".bin" / "cdk", *arguments, "--no-notices"],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=ROOT if app else self.emulator.folder,
        )
        if result.returncode:
            raise CdkError(f"cdk {arguments[0]} ended with status {result.returncode}:\n{result.stdout}")
        return result.stdout
