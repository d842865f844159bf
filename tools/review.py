"""What a deployment would add, change, replace and remove, stack by stack; nothing is executed.

python -m tools.review [--app ASSEMBLY] [--summary FILE]

Every stack that exists gets a change set named `review`, which stays for a look in the console and is replaced by the next
review. A stack's change set is made against the exports that other stacks have now, so a change that reaches it through
another stack shows only after that one is deployed.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tools.change_sets import AssemblyStack, prepare, review
from tools.change_table import ChangeTable, summary


def main() -> None:
    parser = argparse.ArgumentParser(description="What a deployment would change, without executing it.")
    parser.add_argument("--app", type=Path, default=Path("cdk.out"), help="cloud assembly (default: cdk.out)")
    parser.add_argument("--summary", type=Path, help="file for a summary of one line")
    arguments = parser.parse_args()
    tables: list[ChangeTable] = []
    try:
        for stack in AssemblyStack.all(arguments.app):
            tables.append(
                review(
                    stack,
                    cloudformation=_client(stack),
                    prepare=lambda stack, protected: prepare(arguments.app, stack, protected=protected),
                )
            )
            print(tables[-1].text(), end="\n\n", flush=True)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.stdout}{error.stderr}\nThe CDK CLI could not prepare the change set.")
    except (OSError, json.JSONDecodeError, KeyError):
        sys.exit(f"--app={arguments.app}: no cloud assembly; allowed is a folder that `cdk synth --output` wrote")
    except (BotoCoreError, ClientError) as error:
        sys.exit(str(error))
    print(summary(tables))
    for stage in sorted(arguments.app.glob("assembly-*/manifest.json")):
        print(f"Not part of this review is a stage that the pipeline delivers: --app {stage.parent}")
    if arguments.summary:
        arguments.summary.write_text(summary(tables))


def _client(stack: AssemblyStack) -> Any:
    """As the stack's deploy role, like the CLI; as oneself where that role may not be assumed."""
    session = boto3.Session(region_name=stack.region)
    if stack.deploy_role_arn:
        sts = session.client("sts")
        me = sts.get_caller_identity()
        arn = (
            stack.deploy_role_arn.replace("${AWS::Partition}", me["Arn"].split(":")[1])
            .replace("${AWS::AccountId}", stack.account or me["Account"])
            .replace("${AWS::Region}", stack.region or session.region_name or "")
        )
        try:
            keys = sts.assume_role(RoleArn=arn, RoleSessionName="review")["Credentials"]
        except ClientError as error:
            print(f"Continuing with your own credentials: {error}", file=sys.stderr)
        else:
            session = boto3.Session(
                region_name=session.region_name,
                aws_access_key_id=keys["AccessKeyId"],
                aws_secret_access_key=keys["SecretAccessKey"],
                aws_session_token=keys["SessionToken"],
            )
    return session.client("cloudformation")


if __name__ == "__main__":
    main()
