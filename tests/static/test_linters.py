"""cfn-lint, cdk-nag and the library's own validation over the templates."""

import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk.aws_iam import AccountRootPrincipal, ManagedPolicy, Role
from cdk_nag import AwsSolutionsChecks
from constructs import IConstruct

from settings import Settings
from stacks.application import Application
from tests.conftest import STACKS, TODAY, cdk_json_context
from tests.delivery import ONE, THREE, DeliveryTemplate, delivery_app
from tests.stacks.settings_matrix import COMBINATIONS

ACKNOWLEDGED = "aws:cdk:acknowledged-rules"
CHECKED = ["defaults", "private endpoint, 3 NAT", "tensor parallel", "names", "p6-b300.48xlarge"]


@pytest.mark.parametrize("name", ["defaults", "china", "private endpoint, 3 NAT", "p6-b300.48xlarge"])
def test_cfn_lint_finds_nothing(synth, name: str) -> None:
    directory = synth(**COMBINATIONS[name]).directory
    templates = sorted(map(str, directory.glob("*.template.json")))
    assert len(templates) == len(STACKS)
    run = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), *templates], capture_output=True, text=True, check=False, cwd=directory
    )
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def checked_app(environ: dict[str, str]) -> App:
    context = cdk_json_context()
    app = App(context={key: value for key, value in context.items() if key != "stages"})
    Validations.of(app).add_plugins(AwsSolutionsChecks(verbose=True))
    Application(app, settings=Settings.load(context=context, environ=environ), today=TODAY)
    return app


@pytest.mark.parametrize("name", CHECKED)
def test_nag_and_the_librarys_validation_find_nothing(name: str) -> None:
    """A finding that nobody acknowledged makes synth fail."""
    checked_app(COMBINATIONS[name]).synth()


@pytest.mark.parametrize("stages", [ONE, THREE], ids=["one stage", "three stages"])
def test_cfn_lint_finds_nothing_in_the_pipeline(stages) -> None:
    directory = DeliveryTemplate(stages, NOTIFICATION_EMAIL="me@example.com").directory
    templates = sorted(map(str, directory.rglob("*.template.json")))
    assert len(templates) == len(stages) * len(STACKS) + len({stage["region"] for stage in stages.values()})
    run = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), *templates], capture_output=True, text=True, check=False, cwd=directory
    )
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


@pytest.mark.parametrize("stages", [ONE, THREE], ids=["one stage", "three stages"])
def test_nag_and_the_librarys_validation_find_nothing_in_the_pipeline(stages) -> None:
    """The stages' own stacks are assemblies of their own and checked by the plugin with the rest."""
    app, _ = delivery_app(stages, AwsSolutionsChecks(verbose=True), validation=True, NOTIFICATION_EMAIL="me@example.com")
    app.synth()


def test_nag_really_looks() -> None:
    app = App(builtin_cloud_formation_validation=False)
    Validations.of(app).add_plugins(AwsSolutionsChecks(verbose=True))
    Role(Stack(app, "Bad"), "Role", assumed_by=AccountRootPrincipal()).add_managed_policy(
        ManagedPolicy.from_aws_managed_policy_name("AdministratorAccess")
    )
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()


def acknowledgements(scope: IConstruct) -> list[tuple[str, str]]:
    return [
        (rule, reason)
        for construct in scope.node.find_all()
        for entry in construct.node.metadata
        if entry.type == ACKNOWLEDGED
        for rule, reason in entry.data.items()
        if rule.startswith("AwsSolutions")
    ]


def test_acknowledgements_are_few_and_give_reasons() -> None:
    given = acknowledgements(checked_app({}))
    assert 0 < len(given) < 10
    assert all(len(reason) > 40 for _, reason in given)


def test_acknowledgements_of_the_pipeline_are_few_and_give_reasons() -> None:
    """The library's roles hold wildcards in its own shorthand for reads and writes; beyond those there are few."""
    _, delivery = delivery_app(ONE)
    given = acknowledgements(delivery.stack)
    application = acknowledgements(checked_app({}))
    own = {(rule, reason) for rule, reason in given if (rule, reason) not in application}
    assert len({rule for rule, _ in own}) < 16
    assert len({reason for _, reason in own}) < 8
    assert all(len(reason) > 40 for _, reason in own)
