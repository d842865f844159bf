"""A stand-in for the `aws` command with the two subcommands that the handlers and kubectl call.

Both do the real thing, against whatever AWS_ENDPOINT_URL names: `eks update-kubeconfig` asks the EKS API and writes
the kubeconfig, `eks get-token` signs the STS request that an EKS API server accepts as a bearer token. The package
`awscli` would pin another botocore than ministack does.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore.exceptions
import botocore.session
from botocore.signers import RequestSigner


def update_kubeconfig(*, name: str, kubeconfig: Path, region: str) -> str:
    """Write a kubeconfig for an active cluster."""
    cluster = botocore.session.get_session().create_client("eks", region_name=region).describe_cluster(name=name)["cluster"]
    if cluster["status"] != "ACTIVE":
        raise RuntimeError(f"Cluster status is {cluster['status']}")
    arn = cluster["arn"]
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "preferences": {},
                "current-context": arn,
                "clusters": [
                    {
                        "name": arn,
                        "cluster": {
                            "server": cluster["endpoint"],
                            "certificate-authority-data": cluster.get("certificateAuthority", {}).get("data", ""),
                        },
                    }
                ],
                "contexts": [{"name": arn, "context": {"cluster": arn, "user": arn}}],
                "users": [
                    {
                        "name": arn,
                        "user": {
                            "exec": {
                                "apiVersion": "client.authentication.k8s.io/v1beta1",
                                "command": "aws",
                                "args": ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"],
                            }
                        },
                    }
                ],
            },
            indent=1,
        )
    )
    return f"Updated context {arn} in {kubeconfig}"


def get_token(*, name: str, region: str) -> str:
    """An ExecCredential whose token is a presigned GetCallerIdentity, valid for 60 seconds as AWS's own is."""
    session = botocore.session.get_session()
    client = session.create_client("sts", region_name=region)
    # The name that EKS verifies the signature for, whatever endpoint the other calls go to.
    endpoint = f"https://sts.{region}.amazonaws.com"
    signer = RequestSigner(
        client.meta.service_model.service_id,
        region,
        "sts",
        "v4",
        session.get_credentials(),
        session.get_component("event_emitter"),
    )
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{endpoint}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": name},
            "context": {},
        },
        region_name=region,
        expires_in=60,
        operation_name="",
    )
    token = "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
    expires = (datetime.now(UTC) + timedelta(minutes=14)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps(
        {
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "spec": {},
            "status": {"expirationTimestamp": expires, "token": token},
        }
    )


def main() -> int:
    """Parse, run, and record the call beside those of kubectl and helm."""
    parser = argparse.ArgumentParser(prog="aws", allow_abbrev=False)
    parser.add_argument("--region", default=os.environ.get("AWS_REGION"))
    parser.add_argument("--output", choices=("json",))
    commands = parser.add_subparsers(required=True).add_parser("eks").add_subparsers(dest="command", required=True)
    update = commands.add_parser("update-kubeconfig")
    update.add_argument("--name", required=True)
    update.add_argument("--kubeconfig", type=Path, required=True)
    token = commands.add_parser("get-token")
    token.add_argument("--cluster-name", dest="name", required=True)
    token.add_argument("--output", choices=("json",))
    asked = parser.parse_args()
    if os.environ.get("LOCAL_KUBE_STATE"):
        with (Path(os.environ["LOCAL_KUBE_STATE"]) / "calls.jsonl").open("a") as log:
            log.write(json.dumps({"time": time.time(), "argv": ["aws", *sys.argv[1:]], "files": {}}) + "\n")
    try:
        if asked.command == "get-token":
            print(get_token(name=asked.name, region=asked.region))
        else:
            print(update_kubeconfig(name=asked.name, kubeconfig=asked.kubeconfig, region=asked.region))
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, RuntimeError) as error:
        print(f"aws: {error}", file=sys.stderr)
        return 254
    return 0


if __name__ == "__main__":
    sys.exit(main())
