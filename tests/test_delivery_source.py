"""Where a pipeline gets the repository from, and what is refused."""

import pytest

from delivery_source import DeliverySource
from settings import SettingsError

CONNECTION = "arn:aws:codeconnections:us-east-1:123456789012:connection/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
SOURCE = {"SOURCE_CONNECTION_ARN": CONNECTION, "SOURCE_REPOSITORY": "owner/name", "SOURCE_BRANCH": "main"}


def load(**environ: str) -> DeliverySource | None:
    return DeliverySource.load(context={}, environ=environ)


def loaded(**environ: str) -> DeliverySource:
    found = load(**{**SOURCE, **environ})
    assert found
    return found


def problems(**environ: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(**environ)
    return caught.value.problems


def test_without_a_source_the_cli_deploys_a_stage() -> None:
    assert load(CLUSTER_NAME="not allowed", SOURCE_BRANCH="") is None


def test_source_may_stand_in_the_context() -> None:
    context = {name.lower(): value for name, value in SOURCE.items()}
    assert DeliverySource.load(context=context, environ={}) == load(**SOURCE)


@pytest.mark.parametrize("missing", SOURCE)
def test_half_a_source_is_refused(missing: str) -> None:
    (problem,) = problems(**{name: value for name, value in SOURCE.items() if name != missing})
    assert f"a pipeline needs {missing} as well; allowed is all of {', '.join(SOURCE)}, or none" in problem


def test_notification_needs_a_pipeline() -> None:
    (problem,) = problems(NOTIFICATION_EMAIL="me@example.com")
    assert problem.startswith(f"NOTIFICATION_EMAIL=me@example.com: a pipeline needs {', '.join(SOURCE)} as well")
    assert loaded(NOTIFICATION_EMAIL="me@example.com").notification_email == "me@example.com"


@pytest.mark.parametrize(
    "arn",
    [
        CONNECTION,
        CONNECTION.replace("codeconnections", "codestar-connections"),
        CONNECTION.replace("arn:aws:", "arn:aws-cn:").replace("us-east-1", "cn-north-1"),
        CONNECTION.replace("arn:aws:", "arn:aws-us-gov:").replace("us-east-1", "us-gov-west-1"),
    ],
)
def test_connection_arns(arn: str) -> None:
    assert loaded(SOURCE_CONNECTION_ARN=arn).connection_arn == arn


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SOURCE_CONNECTION_ARN", CONNECTION[:-1]),
        ("SOURCE_CONNECTION_ARN", CONNECTION.upper()),
        ("SOURCE_CONNECTION_ARN", CONNECTION.replace("123456789012", "1234")),
        ("SOURCE_CONNECTION_ARN", CONNECTION.replace("us-east-1", "")),
        ("SOURCE_CONNECTION_ARN", CONNECTION.replace(":connection/", ":host/")),
        ("SOURCE_CONNECTION_ARN", CONNECTION.replace("arn:aws:", "arn:gcp:")),
        ("SOURCE_CONNECTION_ARN", CONNECTION.replace("codeconnections", "codecommit")),
        ("SOURCE_CONNECTION_ARN", CONNECTION.replace("us-east-1", "cn-north-1")),
        ("SOURCE_CONNECTION_ARN", CONNECTION.replace("arn:aws:", "arn:aws-cn:")),
        ("SOURCE_REPOSITORY", "name"),
        ("SOURCE_REPOSITORY", "owner/name.git"),
        ("SOURCE_REPOSITORY", "https://github.com/owner/name"),
        ("SOURCE_REPOSITORY", "owner/"),
        ("SOURCE_BRANCH", "refs heads"),
        ("SOURCE_BRANCH", "refs/heads/main"),
        ("SOURCE_BRANCH", "a..b"),
        ("SOURCE_BRANCH", "-main"),
        ("NOTIFICATION_EMAIL", "me"),
    ],
)
def test_bad_source_is_refused(name: str, value: str) -> None:
    (problem,) = problems(**{**SOURCE, name: value})
    assert problem.startswith(f"{name}={value}: allowed is ")


@pytest.mark.parametrize("branch", ["main", "x", "release/1.2", "feature_a"])
def test_branches(branch: str) -> None:
    assert loaded(SOURCE_BRANCH=branch).branch == branch
