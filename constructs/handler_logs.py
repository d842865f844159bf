"""One log group for the Lambda functions of a stack."""

from aws_cdk import CfnOutput, RemovalPolicy, Stack, aws_logs as logs
from constructs import Construct


class HandlerLogs(Construct):
    """Where the custom resource handlers of a stack log, kept one month and removed with the stack.

    Its name is a stack output, because CloudFormation cuts a handler's error after 4 KB.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.log_group = logs.LogGroup(
            self,
            "LogGroup",
            log_group_name=f"/{Stack.of(self).stack_name}/handlers",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        output = CfnOutput(
            Stack.of(self),
            "HandlerLogGroup",
            value=self.log_group.log_group_name,
            description="Log group of this stack's handlers",
        )
        output.override_logical_id("HandlerLogGroup")
