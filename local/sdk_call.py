"""`python -m local.sdk_call SERVICE OPERATION`: one AWS call for a handler in Node.js; parameters on stdin, JSON on stdout."""

import json
import sys

import boto3
from botocore import xform_name
from botocore.exceptions import ClientError


def main() -> None:
    """The result, or the error's code and message, as the JavaScript SDK names them."""
    service, operation = sys.argv[1:]
    try:
        result = getattr(boto3.client(service), xform_name(operation))(**json.load(sys.stdin))
    except ClientError as error:
        print(json.dumps({"error": error.response["Error"]["Code"], "message": str(error)}))
    else:
        print(json.dumps({"result": result}, default=str))


if __name__ == "__main__":
    main()
