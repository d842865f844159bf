#!/usr/bin/env python3
"""Settings in, stacks out: one deployment, or the pipeline that delivers all stages."""

import os
import sys
from datetime import UTC, datetime

from aws_cdk import App

from delivery_plan import DeliveryPlan
from settings import Settings, SettingsError

# The library's own validation pass costs 8 CPU seconds, four times the rest of synth: `make validate`, the tests and the
# pipeline switch it on (CDK_VALIDATION=true), everyday synth does without. Stack traces only serve the CLI's --debug.
app = App(builtin_cloud_formation_validation=os.environ.get("CDK_VALIDATION") == "true", stack_traces=False)
today = datetime.now(UTC).date()
try:
    context = app.node.get_all_context()
    if plan := DeliveryPlan.load(context=context, environ=os.environ):
        # Imported here, as CDK Pipelines costs a second that a synth without a pipeline need not pay.
        from stacks.delivery import Delivery

        Delivery(app, plan=plan, today=today)
    else:
        from stacks.application import Application

        Application(app, settings=Settings.load(context=context, environ=os.environ), today=today)
except SettingsError as error:
    sys.exit(str(error))
app.synth()
