"""The application's pipeline for other stages than those of cdk.json: STAGES is their JSON."""

import json
import os
from datetime import date

from aws_cdk import App

from delivery_plan import DeliveryPlan
from settings import Settings
from stacks.delivery import Delivery

app = App(builtin_cloud_formation_validation=False)
context = {**app.node.get_all_context(), "stages": json.loads(os.environ["STAGES"])}
settings = Settings.load(context=context, environ=os.environ)
Delivery(app, plan=DeliveryPlan.load(settings=settings, context=context, environ={}), today=date(2026, 12, 2))
app.synth()
