"""What ministack's EC2 knows and does not say: parts of three Describe answers."""

from __future__ import annotations

import re
from typing import Any
from xml.sax.saxutils import escape

import botocore.session
from ministack.services import ec2


class Ec2Answers:
    """Completes launch template data, the addresses of NAT gateways and the roles of flow logs."""

    def __init__(self) -> None:
        model = botocore.session.get_session().get_service_model("ec2")
        self._template_data = model.shape_for("ResponseLaunchTemplateData")

    def install(self) -> None:
        """Replace or wrap ministack's renderings."""
        ec2._lt_data_xml = lambda data: self._members(self._template_data, data)
        self._add("DescribeNatGateways", "natGatewayId", self._addresses)
        self._add("DescribeFlowLogs", "flowLogId", self._role)

    @staticmethod
    def _add(action: str, tag: str, more: Any) -> None:
        """Put `more(id)` behind the element that carries the id."""
        original = ec2._ACTION_MAP[action]

        def complete(parameters: dict) -> tuple:
            status, headers, body = original(parameters)
            body = body.replace(b"<natGatewayAddressSet/>", b"")  # the empty place of what is added
            found = rf"<{tag}>(.*?)</{tag}>".encode()
            return status, headers, re.sub(found, lambda match: match[0] + more(match[1].decode()).encode(), body)

        ec2._ACTION_MAP[action] = complete

    @staticmethod
    def _addresses(nat: str) -> str:
        allocation = ec2._nat_gateways[nat]["AllocationId"]
        address = ec2._addresses.get(allocation)
        if address is None:
            return ""
        item = f"<allocationId>{allocation}</allocationId><publicIp>{address['PublicIp']}</publicIp>"
        return f"<natGatewayAddressSet><item>{item}</item></natGatewayAddressSet>"

    @staticmethod
    def _role(flow_log: str) -> str:
        role = ec2._flow_logs[flow_log].get("DeliverLogsPermissionArn")
        return f"<deliverLogsPermissionArn>{escape(role)}</deliverLogsPermissionArn>" if role else ""

    def _members(self, shape: Any, value: dict[str, Any]) -> str:
        """Rendered by botocore's own description of EC2's answer, so that no member is lost."""
        answer = ""
        for name, member in shape.members.items():
            if value.get(name) is not None:
                tag = member.serialization.get("name", name)
                answer += f"<{tag}>{self._value(member, value[name])}</{tag}>"
        return answer

    def _value(self, shape: Any, value: Any) -> str:
        if shape.type_name == "structure":
            return self._members(shape, value)
        if shape.type_name == "list":
            return "".join(f"<item>{self._value(shape.member, item)}</item>" for item in value)
        return str(value).lower() if isinstance(value, bool) else escape(str(value))
