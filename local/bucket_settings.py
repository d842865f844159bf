"""Encryption, lifecycle rules and tags of buckets, which ministack's CloudFormation drops though its S3 has them."""

from __future__ import annotations

import json
from typing import Any

import botocore.session
from botocore.serialize import create_serializer
from ministack.services import s3

from local.api_calls import ServiceError
from local.resource_types import Properties

_RULE = {"Id", "Status", "ExpirationInDays", "AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration"}


def keep(bucket: str, properties: Properties) -> None:
    """Give the bucket what the template says, through the calls that S3's clients make.

    Raises:
        ServiceError: for a property of a lifecycle rule that this module does not carry over.
    """
    encryption = properties.get("BucketEncryption")
    # ministack has no key aws/s3: a bucket that asks for it (the bootstrap's) stays with S3's own encryption.
    if encryption and "KMSMasterKeyID" in json.dumps(encryption):
        rules = [
            {("Apply" if name.startswith("ServerSide") else "") + name: value for name, value in rule.items()}
            for rule in encryption["ServerSideEncryptionConfiguration"]
        ]
        body = _body("PutBucketEncryption", ServerSideEncryptionConfiguration={"Rules": rules})
        _accept(s3._put_bucket_encryption(bucket, body))
    if lifecycle := properties.get("LifecycleConfiguration"):
        rules = [_rule(rule) for rule in lifecycle["Rules"]]
        body = _body("PutBucketLifecycleConfiguration", LifecycleConfiguration={"Rules": rules})
        _accept(s3._put_bucket_lifecycle(bucket, body))
    if tags := properties.get("Tags"):
        _accept(s3._put_bucket_tagging(bucket, _body("PutBucketTagging", Tagging={"TagSet": tags})))


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    if unknown := set(rule) - _RULE:
        raise ServiceError("MalformedXML", f"the local emulator does not know {', '.join(sorted(unknown))} of a lifecycle rule")
    kept = {name: rule[name] for name in ("AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration") if name in rule}
    if "ExpirationInDays" in rule:
        kept["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    return {"ID": rule.get("Id", ""), "Status": rule["Status"], "Filter": {"Prefix": ""}, **kept}


def _body(operation: str, **arguments: Any) -> bytes:
    model = botocore.session.get_session().get_service_model("s3").operation_model(operation)
    request = create_serializer("rest-xml", include_validation=False).serialize_to_request({"Bucket": "b", **arguments}, model)
    return request["body"]


def _accept(response: tuple[int, Any, Any]) -> None:
    if response[0] >= 400:
        raise ServiceError("MalformedXML", str(response[2]))
