"""The process of the emulator: ministack with this project's additions. Started by local/emulator.py."""

from __future__ import annotations

import os
from pathlib import Path

from ministack.app import main

from local.instance_offerings import InstanceOfferings
from local.launch_template_answer import LaunchTemplateAnswer
from local.resource_rules import ResourceRules
from local.resource_schemas import ResourceSchemas

if __name__ == "__main__":
    offerings = InstanceOfferings(file=Path(os.environ["LOCAL_OFFERINGS"]))
    offerings.install()
    LaunchTemplateAnswer().install()
    ResourceRules(schemas=ResourceSchemas(region=os.environ["MINISTACK_REGION"]), offerings=offerings).install()
    main()
