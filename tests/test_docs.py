"""What the documents show is what the code does."""

import json
import re
from pathlib import Path

import pytest

from delivery_plan import DeliveryPlan
from tests.delivery import SOURCE, THREE, TWO, DeliveryTemplate
from tests.tools.recorded import CLUSTER, NODE_GROUP
from tools.change_row import ChangeRow
from tools.change_table import ChangeTable

DOCS = Path(__file__).parent.parent / "docs"


def test_example_of_stages_is_a_plan() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (DOCS / "delivery.md").read_text(), re.DOTALL)
    context = json.loads("{" + example + "}")
    plan = DeliveryPlan.load(context=context, environ=SOURCE)
    assert plan
    assert [[stage.stage for stage in wave] for wave in plan.waves] == [["dev"], ["test", "load"], ["prod"]]
    assert [stage.approval for stage in plan.stages] == [False, False, False, True]


@pytest.mark.parametrize("stack", ["network", "eks", "ray-serve", "delivery"])
def test_console_review_explains_every_logical_id(stack: str) -> None:
    text = (DOCS / "console-review.md").read_text()
    (section,) = re.findall(rf"### `<cluster>-{stack}`\n(.*?)\n(?:###|##) ", text, re.DOTALL)
    groups = [name for row in section.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    template = DeliveryTemplate(TWO, NOTIFICATION_EMAIL="me@example.com")
    account = None if stack == "delivery" else "222222222222"
    ids = list(template.stack(f"ray-llm-multinode-{stack}", account=account)["Resources"])
    assert [name for name in ids if not name.startswith(tuple(groups))] == []
    assert [group for group in groups if not any(name.startswith(group) for name in ids)] == []


def test_console_review_shows_a_real_table() -> None:
    rows = tuple(ChangeRow.of_change(change) for change in (CLUSTER, NODE_GROUP))
    shown = (DOCS / "console-review.md").read_text()
    assert ChangeTable(stack="eks", rows=rows).alarm() in shown
    for row in rows:
        assert re.search(rf"{row.action} +{row.type} +\S+ +{re.escape(row.because)}", shown)


def test_steps_of_the_pipeline_are_documented() -> None:
    text = (DOCS / "delivery.md").read_text()
    stages = DeliveryTemplate(THREE).stages()
    assert all(f"| {name} |" in text for name in list(stages)[:5])
