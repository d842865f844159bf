"""How changes read, and in which order."""

import pytest

from tests.tools.recorded import CHART, CLUSTER, DYNAMIC, KEPT_KEY, NAT, NEW_NAT, NODE_GROUP, POLICY, ROLE
from tools.change_row import ChangeRow
from tools.change_table import SUMMARY_LIMIT, ChangeTable, summary


def table(*changes, stack: str = "eks") -> ChangeTable:
    return ChangeTable(stack=stack, rows=tuple(ChangeRow.of_change(change) for change in changes), link="https://link")


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (CLUSTER, "REPLACE"),
        (NODE_GROUP, "MAY REPLACE"),
        (NAT, "REMOVE"),
        (NEW_NAT, "add"),
        (KEPT_KEY, "release"),
        (POLICY, "modify"),
        (ROLE, "replace"),
        (DYNAMIC, "depends"),
    ],
)
def test_actions_are_in_capitals_where_they_cost_data_or_the_endpoint(change, action: str) -> None:
    assert ChangeRow.of_change(change).action == action


def test_properties_that_recreate_come_first() -> None:
    assert ChangeRow.of_change(CLUSTER).because == "Name (recreates), Version"
    assert ChangeRow.of_change(NODE_GROUP).because == "LaunchTemplate (recreates)"
    assert ChangeRow.of_change(NAT).because == ""


def test_property_that_recreates_by_one_of_its_causes_recreates() -> None:
    change = {"ResourceChange": {**ROLE["ResourceChange"], "Details": [*POLICY["ResourceChange"]["Details"]]}}
    change["ResourceChange"]["Details"] += [
        {"Target": {"Attribute": "Properties", "Name": "PolicyDocument", "RequiresRecreation": "Always"}},
        {"Target": {"Attribute": "Tags", "RequiresRecreation": "Never"}},
    ]
    assert ChangeRow.of_change(change).because == "PolicyDocument (recreates), Tags"


def test_table_has_the_worst_first() -> None:
    lines = table(POLICY, CHART, NEW_NAT, ROLE, NODE_GROUP, DYNAMIC, CLUSTER, NAT).text().splitlines()
    assert lines[0] == "eks: 1 remove, 2 replace, 1 may replace, 1 depends, 2 modify, 1 add"
    assert lines[1] == "  MAY REPLACE 1 NODE GROUP, REMOVE 1 NAT GATEWAY, REPLACE 1 CLUSTER"
    assert [line.split()[:1] for line in lines[2:5]] == [["REMOVE"], ["REPLACE"], ["MAY"]]
    order = ["Nat2", "ControlPlaneCluster", "GpuNodes", "Role", "Nat3", "Parameter", "Policy", "Operator"]
    assert [next(name for name in order if f" {name}" in line) for line in lines[2:-1]] == order
    assert lines[-1] == "  https://link"


def test_columns_are_aligned() -> None:
    lines = table(CLUSTER, POLICY).text().splitlines()[2:-1]
    assert len({line.index("AWS::") for line in lines}) == 1


def test_nothing_changes() -> None:
    assert ChangeTable(stack="eks", rows=()).text() == "eks: no changes"


def test_alarm_counts() -> None:
    assert table(NAT, NAT).alarm() == "REMOVE 2 NAT GATEWAYS"
    assert table(POLICY, ROLE).alarm() == ""


def test_summary_has_alarms_first_and_no_quotes() -> None:
    tables = [table(POLICY, stack="network"), table(CLUSTER), ChangeTable(stack="ray", rows=(), note='no "change" set')]
    assert summary(tables) == "eks: REPLACE 1 CLUSTER!; network: 1 modify; eks: 1 replace; ray: no 'change' set"


def test_summary_fits_an_approval() -> None:
    text = summary([table(CLUSTER, stack=f"{number:02}-{'x' * 90}") for number in range(20)])
    assert SUMMARY_LIMIT - 150 < len(text) <= SUMMARY_LIMIT
    assert text.endswith("; ...")
