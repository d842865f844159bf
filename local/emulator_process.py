"""The process of the emulator: ministack with this project's additions. Started by local/emulator.py."""

from __future__ import annotations

import os
from pathlib import Path

from ministack import app

from local import change_set_rules, code_build, code_pipeline, notification_rules
from local.account_facts import AccountFacts
from local.ec2_answers import Ec2Answers
from local.instance_offerings import InstanceOfferings
from local.kube.binaries import KubeBinaries
from local.kube.docker_stand_in import DockerStandIn
from local.kube.node_groups import NodeGroups
from local.kube_api import KubeApi
from local.resource_rules import ResourceRules
from local.resource_schemas import ResourceSchemas


def trust_loopback() -> None:
    """Policies that deny plain HTTP (the bootstrap bucket's) take the loopback for the TLS it stands for."""
    original = app.pin_request_origin
    app.pin_request_origin = lambda source_ip, secure_transport: original(source_ip, True)


if __name__ == "__main__":
    offerings = InstanceOfferings(file=Path(os.environ["LOCAL_OFFERINGS"]))
    offerings.install()
    AccountFacts(file=Path(os.environ["LOCAL_FACTS"])).install()
    folder = Path(os.environ["STATE_DIR"]).parent
    if os.environ.get("LOCAL_KUBE") == "real":
        addresses = tuple(filter(None, os.environ["LOCAL_KUBE_ADDRESSES"].split(","))) or ("127.0.0.1",)
        clusters = DockerStandIn(binaries=KubeBinaries.find(), folder=folder / "clusters", addresses=addresses)
        clusters.install()
        NodeGroups(clusters=clusters).install()
    else:
        KubeApi(state=Path(os.environ["LOCAL_KUBE_STATE"]), folder=folder).install()
    Ec2Answers().install()
    for addition in (change_set_rules, code_build, code_pipeline, notification_rules):
        addition.install()
    ResourceRules(schemas=ResourceSchemas(region=os.environ["MINISTACK_REGION"]), offerings=offerings).install()
    trust_loopback()
    app.main()
