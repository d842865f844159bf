"""A stack with an asynchronous custom resource: done at the third look, or failed when FAIL is set."""

import os

from aws_cdk import App, CfnOutput, CustomResource, Duration, Stack, aws_lambda as lambda_, custom_resources as cr

ON_EVENT = """
def handler(event, context):
    return {"PhysicalResourceId": "slow-thing", "Data": {"Request": event["RequestType"]}}
"""
IS_COMPLETE = """
import pathlib, tempfile
def handler(event, context):
    if event["ResourceProperties"]["Fail"] == "yes" and event["RequestType"] != "Delete":
        raise ValueError("the slow thing broke for a reason of its own")
    looks = pathlib.Path(tempfile.gettempdir(), "looks-" + event["RequestId"])
    count = int(looks.read_text()) if looks.exists() else 0
    looks.write_text(str(count + 1))
    return {"IsComplete": count >= 2, **({"Data": {"Looks": str(count + 1)}} if count >= 2 else {})}
"""

app = App()
stack = Stack(app, "AsyncStack", stack_name="async")


def function(name: str, code: str) -> lambda_.Function:
    return lambda_.Function(
        stack, name, code=lambda_.Code.from_inline(code), handler="index.handler", runtime=lambda_.Runtime.PYTHON_3_13
    )


provider = cr.Provider(
    stack,
    "Provider",
    on_event_handler=function("OnEvent", ON_EVENT),
    is_complete_handler=function("IsComplete", IS_COMPLETE),
    query_interval=Duration.seconds(1),
    total_timeout=Duration.minutes(2),
)
slow = CustomResource(
    stack,
    "Slow",
    resource_type="Custom::Slow",
    service_token=provider.service_token,
    properties={"Fail": os.environ.get("FAIL", "no")},
)
CfnOutput(stack, "Looks", value=slow.get_att_string("Looks"))
app.synth()
