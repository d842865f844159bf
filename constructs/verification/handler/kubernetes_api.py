"""The Kubernetes API of an EKS cluster, with the standard library and boto3."""

import base64
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.signers import RequestSigner

from .cluster_error import ClusterError
from .text import one_line

RETRY = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=10)
TIMEOUT_S = 15
# A gateway or a rate limit says nothing about what was asked for; three attempts take at most a few seconds.
ATTEMPTS = 3
RETRIED = (429, 500, 502, 503, 504)
BODY_LIMIT = 32 * 1024 * 1024


class KubernetesApi:
    """GET, DELETE and POST on the cluster's API server, as the function's own IAM role.

    Whatever goes wrong is a ClusterError: no other exception leaves this class. Reads and deletes are repeated after
    429, 5xx and broken connections, at most `ATTEMPTS` times; a POST never is, since its caller counts.
    """

    def __init__(self, *, endpoint, certificate_authority, token, sleep=time.sleep):
        self._endpoint, self._token, self._sleep = endpoint.rstrip("/"), token, sleep
        try:
            self._context = ssl.create_default_context(cadata=certificate_authority)
        except ssl.SSLError as error:
            raise ClusterError(f"the cluster's certificate authority is not readable: {error.reason}") from None
        # Python 3.13 made strict what EKS's authorities do not fulfil (no Authority Key Identifier).
        self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT

    @classmethod
    def of_cluster(cls, name, *, region, client=None):
        """The API of an EKS cluster by its name. Raises ClusterError with status 404 where there is no such cluster."""
        client = client or aws_client
        try:
            cluster = client("eks", region).describe_cluster(name=name)["cluster"]
            authority = base64.b64decode(cluster["certificateAuthority"]["data"]).decode()
            return cls(endpoint=cluster["endpoint"], certificate_authority=authority, token=eks_token(name, region))
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            status = 404 if code == "ResourceNotFoundException" else 0
            raise ClusterError(f"EKS does not describe the cluster: {code}", status=status) from None
        except (BotoCoreError, KeyError, ValueError) as error:
            raise ClusterError(f"EKS does not describe the cluster: {type(error).__name__}") from None

    def json(self, path):
        """The parsed answer to a GET."""
        try:
            return json.loads(self.text(path))
        except ValueError:
            raise ClusterError(f"GET {path}: no JSON") from None

    def text(self, path):
        """The answer to a GET as text, at most 32 MiB of it."""
        return self._repeated("GET", path)

    def delete(self, path):
        """DELETE; what is not there is deleted."""
        try:
            self._repeated("DELETE", path)
        except ClusterError as error:
            if error.status != 404:
                raise

    def lines(self, path, body, *, timeout_s):
        """The lines of the answer to a POST of JSON, as they come in."""
        with self._open("POST", path, body=json.dumps(body).encode(), timeout_s=timeout_s) as response:
            try:
                for line in response:
                    yield line.decode(errors="replace").rstrip("\r\n")
            except (OSError, http.client.HTTPException) as error:
                raise ClusterError(f"POST {path}: {type(error).__name__}") from None

    def _repeated(self, method, path):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._open(method, path) as response:
                    return response.read(BODY_LIMIT).decode(errors="replace")
            except (OSError, http.client.HTTPException) as error:
                failure = ClusterError(f"{method} {path}: {type(error).__name__}")
            except ClusterError as error:
                failure = error
            if attempt == ATTEMPTS or failure.status not in (0, *RETRIED):
                raise failure
            self._sleep(attempt)
        raise AssertionError("the loop returns or raises")  # pragma: no cover

    def _open(self, method, path, *, body=None, timeout_s=TIMEOUT_S):
        request = urllib.request.Request(self._endpoint + path, method=method, data=body)
        request.add_header("Authorization", f"Bearer {self._token}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            return urllib.request.urlopen(request, timeout=timeout_s, context=self._context)
        except urllib.error.HTTPError as error:
            with error:
                said = error.read(4096).decode(errors="replace")
            raise ClusterError(f"{method} {path}: {error.code} {one_line(said, 300)}", status=error.code) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise ClusterError(f"{method} {path}: {one_line(reason, 200) or type(error).__name__}") from None


def aws_client(service, region):
    """A client with bounded waits."""
    return boto3.client(service, region_name=region, config=RETRY)


def eks_token(cluster, region):
    """What `aws eks get-token` prints: a presigned GetCallerIdentity that names the cluster. Good for 14 minutes."""
    session = boto3.Session()
    client = session.client("sts", region_name=region)
    signer = RequestSigner(client.meta.service_model.service_id, region, "sts", "v4", session.get_credentials(), session.events)
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"https://sts.{region}.{domain}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        },
        region_name=region,
        expires_in=60,
        operation_name="",
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
