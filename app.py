#!/usr/bin/env python3
"""Settings in, stacks out."""

import os
import sys
from datetime import UTC, datetime

from aws_cdk import App

from settings import Settings, SettingsError
from stacks.application import Application

app = App()
try:
    settings = Settings.load(context=app.node.get_all_context(), environ=os.environ)
except SettingsError as error:
    sys.exit(str(error))
Application(app, settings=settings, today=datetime.now(UTC).date())
app.synth()
