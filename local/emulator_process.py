"""The process of the emulator: ministack with this project's additions. Started by local/emulator.py."""

from __future__ import annotations

import os
from pathlib import Path

from ministack import app

from local.instance_offerings import InstanceOfferings
from local.launch_template_answer import LaunchTemplateAnswer
from local.resource_rules import ResourceRules
from local.resource_schemas import ResourceSchemas


def trust_loopback() -> None:
    """Policies that deny plain HTTP (the bootstrap bucket's) take the loopback for the TLS it stands for."""
    original = app.pin_request_origin
    app.pin_request_origin = lambda source_ip, secure_transport: original(source_ip, True)


if __name__ == "__main__":
    offerings = InstanceOfferings(file=Path(os.environ["LOCAL_OFFERINGS"]))
    offerings.install()
    LaunchTemplateAnswer().install()
    ResourceRules(schemas=ResourceSchemas(region=os.environ["MINISTACK_REGION"]), offerings=offerings).install()
    trust_loopback()
    app.main()
