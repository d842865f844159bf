"""EC2 DescribeInstanceTypeOfferings, which ministack lacks: which zone offers which instance type."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from xml.sax.saxutils import escape

from ministack.core.responses import get_region
from ministack.services import ec2

ZONE_LETTERS = ("a", "b", "c")  # the emulator's regions have three zones each


class InstanceOfferings:
    """Answers from a JSON file, read at every call so that a test can change it while the emulator runs.

    The file maps a type, or a pattern such as `p5*`, to the letters of the zones that offer it in every region, or
    to a mapping of region to letters ("sa-east-1": "ab"; a region left out offers none). A type that no line matches
    is offered in every zone.
    """

    def __init__(self, *, file: Path) -> None:
        self._file = file

    def zones(self, instance_type: str) -> tuple[str, ...]:
        """Zone names of the calling region that offer the type, sorted."""
        rules = json.loads(self._file.read_text()) if self._file.exists() else {}
        letters: str | dict[str, str] = "".join(ZONE_LETTERS)
        for pattern, offered in rules.items():
            if fnmatch.fnmatchcase(instance_type, pattern):
                letters = offered
        if isinstance(letters, dict):
            letters = letters.get(get_region(), "")
        return tuple(f"{get_region()}{letter}" for letter in ZONE_LETTERS if letter in letters)

    def install(self) -> None:
        """Add the action to the emulator's EC2 API."""
        ec2._ACTION_MAP["DescribeInstanceTypeOfferings"] = self._describe

    def _describe(self, parameters: dict) -> tuple:
        location_type = ec2._p(parameters, "LocationType") or "region"
        if location_type not in ("region", "availability-zone", "availability-zone-id"):
            return ec2._error("InvalidParameterValue", f"The value '{location_type}' for LocationType is not valid", 400)
        filters = ec2._parse_filters(parameters)
        types = filters.get("instance-type")
        if not types or any("*" in name for name in types):
            return ec2._error("InvalidParameterValue", "the local emulator answers only for exact instance types", 400)
        items = []
        for name in types:
            zones = self.zones(name)
            locations = {
                "region": [get_region()] if zones else [],
                "availability-zone": list(zones),
                "availability-zone-id": [ec2._az_id_for_zone_name(zone) for zone in zones],
            }[location_type]
            items += [
                f"<item><instanceType>{escape(name)}</instanceType><locationType>{location_type}</locationType>"
                f"<location>{location}</location></item>"
                for location in locations
                if location in filters.get("location", [location])
            ]
        return ec2._xml(
            200, "DescribeInstanceTypeOfferingsResponse", f"<instanceTypeOfferingSet>{''.join(items)}</instanceTypeOfferingSet>"
        )
