"""What the preflight asks of an account and ministack does not know: instance types, EC2's limits, images of AWS's registries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ministack import app
from ministack.core import router
from ministack.services import ec2, ecr

from catalog.efa_instance_type import efa_instance_types

_QUOTAS = "servicequotas"
_SYSTEM_TYPES = {"m7i.xlarge": (4, 16384)}
# More than any test asks for.
_LIMIT = 10_000


def instance_types() -> dict[str, tuple[int, int, bool]]:
    """vCPUs, memory in MiB and whether the type has EFA, by its name."""
    known = {name: (row.vcpus, row.memory_mib, True) for name, row in efa_instance_types().items()}
    return known | {name: (*row, False) for name, row in _SYSTEM_TYPES.items()}


class AccountFacts:
    """Answers from the catalog, changed by a JSON file that is read at every call, so that a test can inject a fault.

    `{"quota": {"L-DB2E81BA": 0}, "no_efa": ["g6.8xlarge"], "missing_images": ["serve-llm-cuda-v1.0"]}`
    """

    def __init__(self, *, file: Path) -> None:
        self._file = file

    def install(self) -> None:
        """Add the calls to the emulator's APIs."""
        ec2._ACTION_MAP["DescribeInstanceTypes"] = self._instance_types
        router.SERVICE_PATTERNS[_QUOTAS] = {"target_prefixes": ["ServiceQuotasV20190624"]}
        app.SERVICE_HANDLERS[_QUOTAS] = self._quotas
        self._own_images = ecr._batch_get_image
        ecr._batch_get_image = self._images

    def _facts(self) -> dict[str, Any]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}

    def _instance_types(self, parameters: dict) -> tuple:
        names = ec2._parse_filters(parameters).get("instance-type")
        if not names:
            return ec2._error("InvalidParameterValue", "the local emulator describes exact instance types only", 400)
        known = instance_types()
        without = self._facts().get("no_efa", [])
        rows = "".join(
            f"<item><instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>{known[name][0]}</defaultVCpus></vCpuInfo>"
            f"<memoryInfo><sizeInMiB>{known[name][1]}</sizeInMiB></memoryInfo>"
            f"<networkInfo><efaSupported>{str(known[name][2] and name not in without).lower()}</efaSupported></networkInfo>"
            "<processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo></item>"
            for name in names
            if name in known
        )
        return ec2._xml(200, "DescribeInstanceTypesResponse", f"<instanceTypeSet>{rows}</instanceTypeSet>")

    async def _quotas(self, method: str, path: str, headers: dict, body: bytes, query: dict) -> tuple:
        asked = json.loads(body or b"{}")
        code = asked.get("QuotaCode", "")
        value = self._facts().get("quota", {}).get(code, _LIMIT)
        answer = {"Quota": {"ServiceCode": asked.get("ServiceCode"), "QuotaCode": code, "Value": float(value)}}
        return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()

    def _images(self, data: dict) -> tuple:
        """Every image of another account's registry is there, but for those that the file calls missing."""
        if data.get("registryId") in (None, ecr.get_account_id()):
            return self._own_images(data)
        missing = self._facts().get("missing_images", [])
        wanted = [image_id for image_id in data["imageIds"] if image_id.get("imageTag") not in missing]
        failures = [
            {"imageId": image_id, "failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
            for image_id in data["imageIds"]
            if image_id not in wanted
        ]
        return ecr.json_response(
            {"images": [{"imageId": image_id, "imageManifest": "{}"} for image_id in wanted], "failures": failures}
        )
