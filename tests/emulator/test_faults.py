"""Eleven faults, each with a message of its own in the stack's event, and a clean roll-back. And a change that KubeRay ignores.

Preflight faults stop the network stack before it has made a subnet; the others stop the last stack. Emulated are the
services' answers (local/account_facts.py, local/kube_api.py); the handlers, the provider framework, IAM and CloudFormation
run as they are.
"""

import json
import os
import re
import time
from pathlib import Path

import pytest

from local.cdk_cli import CdkCli, CdkError

NETWORK, RAY = "ray-llm-multinode-network", "ray-llm-multinode-ray-serve"
# What is broken: (facts of the account, offered zones, fault of the service), where it shows, its message.
PREFLIGHT = {
    "quota 0": ({"quota": {"L-DB2E81BA": 0}}, {}, '2 x g6.8xlarge need 64 vCPUs, 0 are in use, and "Running On-Demand G and VT'),
    "type not offered": ({}, {"g6.8xlarge": ""}, "GPU_NODE_TYPE=g6.8xlarge is not offered in REGION=sa-east-1"),
    "type without EFA": ({"no_efa": ["g6.8xlarge"]}, {}, "GPU_NODE_TYPE=g6.8xlarge has no Elastic Fabric Adapter"),
}
SERVICE = {
    "spec refused by KubeRay": (
        "refused",
        "KubeRay refuses the RayService: The RayService spec is invalid inference/ray-llm: Spec.Up",
    ),
    "bad image tag": ("image", "(ErrImagePull): failed to resolve reference"),
    "pending pods": (
        "pending",
        "fits no node: 0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient vpc.amaz",
    ),
    "CrashLoopBackOff": ("crash", "keeps crashing (CrashLoopBackOff). Its last lines: ImportError: libfabric.so.1"),
    "DEPLOY_FAILED": ("deploy_failed", "is DEPLOY_FAILED. Ray says: Deploying app failed with exception: RuntimeError: no engine"),
    "both phases on one node": ("one_node", "Prefill and decode share node ip-10-0-0-2.ec2.internal"),
    "UCX instead of LIBFABRIC": ("ucx", "started UCX instead of LIBFABRIC."),
    "EFA counters flat": ("flat", "The EFA counters are flat: 0 bytes during a request"),
}


README = Path(__file__).parents[2] / "README.md"
SHOWN_CHARACTERS = 260


@pytest.fixture(scope="module")
def shown() -> dict[str, tuple[str, str]]:
    """Fault: (stack, what its event said), of the tests that ran."""
    return {}


@pytest.fixture(scope="module")
def assembly(emulator):
    return CdkCli(emulator=emulator).synth(emulator.folder / "cdk.out.faults")


@pytest.fixture(scope="module", autouse=True)
def clean(emulator, account, offer):
    """Nothing of this module is left for the next."""
    offer({})
    before = account.inventory()
    yield
    for file in (emulator.facts_file, emulator.kube_state / "service.json"):
        file.unlink(missing_ok=True)
    offer({})
    CdkCli(emulator=emulator).destroy(emulator.folder / "cdk.out.faults")
    assert account.inventory() - before == set()
    (emulator.kube_state / "calls.jsonl").write_text("")


def rolled_back(account, stack: str) -> bool:
    return account.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"] == "ROLLBACK_COMPLETE"


@pytest.mark.parametrize("fault", PREFLIGHT)
def test_preflight_stops_before_anything_costs_money(emulator, account, assembly, offer, reason, shown, fault) -> None:
    facts, offered, message = PREFLIGHT[fault]
    emulator.facts_file.write_text(json.dumps(facts))
    offer(offered)
    with pytest.raises(CdkError, match="network failed"):
        CdkCli(emulator=emulator).deploy(assembly)
    emulator.facts_file.unlink()
    offer({})
    shown[fault] = (NETWORK, reason(NETWORK))
    assert message in reason(NETWORK)
    assert rolled_back(account, NETWORK)
    made = {
        event["ResourceType"]
        for event in account.client("cloudformation").describe_stack_events(StackName=NETWORK)["StackEvents"]
        if event["ResourceStatus"] == "CREATE_COMPLETE"
    }
    assert not made & {"AWS::EC2::Subnet", "AWS::EC2::NatGateway"}


@pytest.mark.parametrize("fault", SERVICE)
def test_verification_stops_the_last_stack_with_the_cause(emulator, account, assembly, reason, shown, fault: str) -> None:
    injected, message = SERVICE[fault]
    (emulator.kube_state / "service.json").write_text(json.dumps({"fault": injected}))
    started = time.monotonic()
    with pytest.raises(CdkError, match="ray-serve failed"):
        CdkCli(emulator=emulator).deploy(assembly)
    shown[fault] = (RAY, reason(RAY))
    assert message in reason(RAY)
    assert rolled_back(account, RAY)
    held = json.loads((emulator.kube_state / "ray-llm-multinode.json").read_text())
    assert not any(key.startswith(("RayService/", "Role/")) for key in held["objects"])
    print(f"{fault}: {time.monotonic() - started:.0f} s")


def test_the_readme_shows_what_the_events_said(shown) -> None:
    """UPDATE_README=1 writes the table anew, to be reviewed in the diff."""
    faults = [*PREFLIGHT, *SERVICE]
    if set(shown) != set(faults):
        pytest.skip("the README's table is made of every fault, and this run left some out: make test-emulator")
    rows = [f"| {fault} | {shown[fault][0].removeprefix('ray-llm-multinode-')} | {_cell(shown[fault][1])} |" for fault in faults]
    table = "\n".join(["| fault | stopped in | event |", "| --- | --- | --- |", *rows])
    text = README.read_text()
    block = re.search(r"\| fault \| stopped in \| event \|\n(?:\|.*\n)+", text)
    assert block
    if os.environ.get("UPDATE_README"):
        README.write_text(text.replace(block[0], f"{table}\n"))
    else:
        assert block[0].strip() == table


def _cell(event: str) -> str:
    """The cause, without the framework's "Error:", the place of the logs, and a count in the names of simulated pods."""
    words = " ".join(event.split()).removeprefix("Error: ").partition(" Logs: ")[0].replace("|", "\\|")
    words = re.sub(r"\bray-llm-\d+-(prefill|decode)-\d+", r"ray-llm-\1", words)
    return words if len(words) <= SHOWN_CHARACTERS else f"{words[:SHOWN_CHARACTERS]}..."


def test_warn_turns_a_transport_fault_into_an_output(emulator, account) -> None:
    (emulator.kube_state / "service.json").write_text(json.dumps({"fault": "flat"}))
    cli = CdkCli(emulator=emulator, settings={"VERIFY": "warn"})
    warned = cli.synth(emulator.folder / "cdk.out.warn")
    cli.deploy(warned)
    outputs = account.outputs(warned)[RAY]
    assert outputs["KvTransferBackend"].startswith("LIBFABRIC, NOT CONFIRMED: The EFA counters are flat")
    assert outputs["EfaBytesPerRequest"] == "0"


def test_a_changed_ray_cluster_is_replaced_and_verified_again(emulator, account) -> None:
    """The simulated KubeRay keeps the pods of the earlier configuration, as the real one does."""
    (emulator.kube_state / "service.json").unlink()
    cli = CdkCli(emulator=emulator, settings={"RAY_VERSION": "2.58.1"})
    changed = cli.synth(emulator.folder / "cdk.out.changed.cluster")
    cli.deploy(changed)
    outputs = account.outputs(changed)[RAY]
    assert outputs["KvTransferBackend"] == "LIBFABRIC"
    assert int(outputs["EfaBytesPerRequest"]) > 0
