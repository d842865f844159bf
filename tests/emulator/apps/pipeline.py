"""The application's pipeline for other stages than those of cdk.json: STAGES is their JSON."""

import json
import os
from datetime import date

from aws_cdk import App

from delivery_plan import DeliveryPlan
from settings import PIPELINE_NAMES
from stacks.delivery import Delivery

app = App(builtin_cloud_formation_validation=False)
context = {**app.node.get_all_context(), "stages": json.loads(os.environ["STAGES"])}
source = {name: os.environ[name] for name in PIPELINE_NAMES}
plan = DeliveryPlan.load(context=context, environ=source)
assert plan
Delivery(app, plan=plan, today=date(2026, 12, 2))
app.synth()
