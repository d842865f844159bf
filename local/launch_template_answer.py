"""DescribeLaunchTemplateVersions in full: ministack leaves out placement and most of a network interface."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import botocore.session
from ministack.services import ec2


class LaunchTemplateAnswer:
    """Renders launch template data by botocore's own description of EC2's answer, so that no member is lost."""

    def __init__(self) -> None:
        model = botocore.session.get_session().get_service_model("ec2")
        self._shape = model.shape_for("ResponseLaunchTemplateData")

    def install(self) -> None:
        """Replace ministack's rendering."""
        ec2._lt_data_xml = lambda data: self._members(self._shape, data)

    def _members(self, shape: Any, value: dict[str, Any]) -> str:
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
