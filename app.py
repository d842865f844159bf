#!/usr/bin/env python3
"""Settings in, stacks out."""

import os
import sys
from datetime import UTC, datetime

from aws_cdk import App

from settings import Settings, SettingsError
from stacks.application import Application

# The library's own validation pass costs 8 CPU seconds, four times the rest of synth: `make validate`, the tests and the
# pipeline switch it on (CDK_VALIDATION=true), everyday synth does without. Stack traces only serve the CLI's --debug.
app = App(builtin_cloud_formation_validation=os.environ.get("CDK_VALIDATION") == "true", stack_traces=False)
try:
    settings = Settings.load(context=app.node.get_all_context(), environ=os.environ)
except SettingsError as error:
    sys.exit(str(error))
Application(app, settings=settings, today=datetime.now(UTC).date())
app.synth()
