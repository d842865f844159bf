"""The pipeline for one, two and three stages."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stacks.delivery_steps import RUNTIMES
from tests.delivery import CONNECTION, CONNECTION_ACCOUNT, ONE, SOURCE, THREE, TWO, DeliveryTemplate

ROOT = Path(__file__).parents[2]
CASES = {"one": ONE, "two": TWO, "three": THREE}
STACKS = ("network", "eks", "ray-serve")
BEFORE_THE_STAGES = ["Source", "Build", "UpdatePipeline", "Assets", "Test"]


@cache
def synthesized(case: str) -> DeliveryTemplate:
    return DeliveryTemplate(CASES[case], NOTIFICATION_EMAIL="me@example.com")


@pytest.fixture(params=CASES)
def any_case(request) -> DeliveryTemplate:
    return synthesized(request.param)


@pytest.fixture
def two() -> DeliveryTemplate:
    return synthesized("two")


@pytest.fixture
def three() -> DeliveryTemplate:
    return synthesized("three")


def names(actions: list[dict[str, Any]]) -> list[str]:
    return [action["Name"] for action in actions]


def deployments(prefix: str = "") -> list[str]:
    return [f"{prefix}ray-llm-multinode-{stack}.{action}" for stack in STACKS for action in ("Prepare", "Deploy")]


def role_arns(value: Any) -> str:
    """All of a policy's resources as one text, with the partition for what CloudFormation fills in."""
    return json.dumps(value).replace('", {"Ref": "AWS::Partition"}, "', "aws")


def test_pipeline(any_case) -> None:
    pipeline = any_case.one("AWS::CodePipeline::Pipeline")
    assert (pipeline["Name"], pipeline["PipelineType"], pipeline["ExecutionMode"]) == ("ray-llm-multinode-delivery", "V2", "QUEUED")
    assert list(any_case.stages())[:5] == BEFORE_THE_STAGES


def test_source_is_the_connection(any_case) -> None:
    (source,) = any_case.stages()["Source"]
    configuration = source["Configuration"]
    assert source["ActionTypeId"]["Provider"] == "CodeStarSourceConnection"
    assert (configuration["ConnectionArn"], configuration["FullRepositoryId"], configuration["BranchName"]) == tuple(
        SOURCE.values()
    )


def test_pipeline_may_use_the_connection_under_both_names_of_the_service(any_case) -> None:
    role = any_case.one("AWS::CodePipeline::Pipeline")["RoleArn"]["Fn::GetAtt"][0]
    (actions,) = [statement["Action"] for statement in any_case.statements(role) if statement["Resource"] == CONNECTION]
    assert set(actions) == {"codeconnections:UseConnection", "codestar-connections:UseConnection"}


def test_synth_is_a_script_of_the_repository(any_case) -> None:
    buildspec = any_case.buildspec("Synth")
    assert buildspec["phases"]["build"]["commands"] == [".ci/pipeline-synth"]
    assert buildspec["artifacts"]["base-directory"] == "cdk.out"
    assert {"CLUSTER_NAME": "ray-llm-multinode", "NOTIFICATION_EMAIL": "me@example.com", **SOURCE}.items() <= any_case.environment(
        "Synth"
    ).items()


def test_every_command_of_a_step_is_a_script_that_can_be_run(any_case) -> None:
    found = set()
    for stage in any_case.stages().values():
        for action in stage:
            if action["ActionTypeId"]["Provider"] == "CodeBuild" and action["Name"] not in ("SelfMutate", "FileAssets"):
                found |= {command.split()[0] for command in any_case.buildspec(action["Name"])["phases"]["build"]["commands"]}
    scripts = found - {"export"}
    assert {".ci/pipeline-synth", ".ci/pipeline-test", ".ci/check-endpoint"} <= scripts
    assert all((ROOT / script).stat().st_mode & 0o100 for script in scripts)


def test_pipeline_updates_itself_with_the_cli_of_package_json(any_case) -> None:
    phases = any_case.buildspec("SelfMutate")["phases"]
    version = json.loads((ROOT / "package.json").read_text())["devDependencies"]["aws-cdk"]
    assert phases["install"]["commands"] == [f"npm install -g aws-cdk@{version}"]
    assert phases["build"]["commands"][0].startswith("cdk -a . deploy DeliveryStack ")


def test_assets_are_published_by_the_same_cli_for_the_stages_alone(any_case) -> None:
    phases = any_case.buildspec("FileAssets")["phases"]
    assert phases["install"]["commands"] == any_case.buildspec("SelfMutate")["phases"]["install"]["commands"]
    assert phases["build"]["commands"] == ["cdk -a . publish-assets 'DeliveryStack/*/*' --unstable publish-assets"]


def test_asset_build_may_assume_the_publishing_and_deploy_roles_of_the_stages(three) -> None:
    role = three.project("FileAssets")["ServiceRole"]["Fn::GetAtt"][0]
    assumed = [item["Resource"] for item in three.statements(role) if item["Action"] == "sts:AssumeRole"]
    found = sorted(re.findall(r"role/cdk-hnb659fds-([a-z-]+)-role-(\d{12}-[a-z0-9-]+)", role_arns(assumed)))
    places = ("111111111111-us-east-1", "222222222222-eu-central-1", "333333333333-us-west-2")
    assert found == [(kind, place) for kind in ("deploy", "file-publishing") for place in places]


def test_keys_of_other_regions_are_the_pipelines_own(three) -> None:
    role = three.one("AWS::CodePipeline::Pipeline")["RoleArn"]["Fn::GetAtt"][0]
    statements = [item for item in three.statements(role) if "kms:Decrypt" in item["Action"]]
    (own,) = [item for item in statements if "Condition" not in item]
    assert set(own["Resource"]) == {"Fn::GetAtt"}
    (others,) = [item for item in statements if "Condition" in item]
    regions = ("eu-central-1", "us-west-2")
    assert [role_arns(arn) for arn in others["Resource"]] == [
        f'"arn:aws:kms:{region}:{CONNECTION_ACCOUNT}:key/*"' for region in regions
    ]
    aliases = [f"alias/ray-llm-multinode-delivery-{region}" for region in regions]
    assert others["Condition"] == {"ForAnyValue:StringEquals": {"kms:ResourceAliases": aliases}}
    for region, alias in zip(regions, aliases, strict=True):
        made = three.stack(f"ray-llm-multinode-delivery-{region}")["Resources"].values()
        assert [item["Properties"]["AliasName"] for item in made if item["Type"] == "AWS::KMS::Alias"] == [alias]


def test_no_policy_allows_the_use_of_any_key(any_case) -> None:
    for policy in any_case.resources("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            if "kms:Decrypt" in statement["Action"]:
                assert "*" not in (statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]])


def test_builds_are_unprivileged_pinned_encrypted_and_log_to_the_stacks_group(any_case) -> None:
    (log_group,) = any_case.resources("AWS::Logs::LogGroup")
    projects = any_case.resources("AWS::CodeBuild::Project")
    for project in projects.values():
        assert not project["Environment"].get("PrivilegedMode")
        assert project["Environment"]["Image"] == "aws/codebuild/amazonlinux-x86_64-standard:6.0"
        assert project["LogsConfig"]["CloudWatchLogs"] == {"GroupName": {"Ref": log_group}, "Status": "ENABLED"}
        assert project["EncryptionKey"]
        assert RUNTIMES.items() <= json.loads(project["Source"]["BuildSpec"])["phases"]["install"].items()
    assert len(projects) > 4


def test_toolchain_is_one_that_the_project_takes() -> None:
    makefile, package = (ROOT / "Makefile").read_text(), json.loads((ROOT / "package.json").read_text())
    least_python = re.search(r"sys.version_info >= \((\d+), (\d+)\)", makefile)
    least_node = re.fullmatch(r">=(\d+)", package["engines"]["node"])
    versions = RUNTIMES["runtime-versions"]
    assert tuple(map(int, versions["python"].split("."))) >= tuple(map(int, least_python.groups()))
    assert int(versions["nodejs"]) >= int(least_node[1])


@pytest.mark.parametrize("action", ["Synth", "Test", "Review-prod"])
def test_installing_builds_cache_their_downloads(two, action: str) -> None:
    assert two.project(action)["Cache"]["Type"] == "S3"
    assert two.buildspec(action)["cache"]["paths"] == ["/root/.cache/pip/**/*", "/root/.npm/**/*"]


def test_logs_are_kept_a_month_and_go_with_the_stack(any_case) -> None:
    (group,) = [item for item in any_case.template["Resources"].values() if item["Type"] == "AWS::Logs::LogGroup"]
    assert group["DeletionPolicy"] == "Delete"
    assert group["Properties"]["RetentionInDays"] == 30
    (emptier,) = any_case.resources("AWS::Lambda::Function").values()
    assert emptier["LoggingConfig"]["LogGroup"]


def test_no_role_may_make_log_groups_that_nobody_removes(any_case) -> None:
    assert "logs:CreateLogGroup" not in json.dumps(any_case.resources("AWS::IAM::Policy"))


def test_artifacts_are_encrypted_expire_and_go_with_the_stack(three) -> None:
    stacks = [three.template, three.stack("ray-llm-multinode-delivery-eu-central-1")]
    stacks.append(three.stack("ray-llm-multinode-delivery-us-west-2"))
    for template in stacks:
        by_type = {resource["Type"]: resource for resource in template["Resources"].values()}
        key, bucket = by_type["AWS::KMS::Key"], by_type["AWS::S3::Bucket"]
        assert key["Properties"]["EnableKeyRotation"] is True
        assert (key["DeletionPolicy"], bucket["DeletionPolicy"]) == ("Delete", "Delete")
        assert "Custom::S3AutoDeleteObjects" in by_type
        (rule,) = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
        assert (rule["Status"], rule["ExpirationInDays"]) == ("Enabled", 30)
        encryption = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]
        assert encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"


def test_stages_stand_in_order_between_their_checks(two) -> None:
    stages = two.stages()
    assert list(stages)[5:] == ["dev", "prod"]
    assert names(stages["dev"]) == [*deployments(), "Check-dev"]
    assert names(stages["prod"]) == ["Review-prod", "Approve-prod", *deployments(), "Check-prod"]


def test_approval_waits_for_the_review_and_the_deployment_for_the_approval(two) -> None:
    order = {action["Name"]: action["RunOrder"] for action in two.stages()["prod"]}
    assert order["Review-prod"] < order["Approve-prod"] < order["ray-llm-multinode-network.Prepare"]


def test_stage_without_approval_has_neither_review_nor_approval() -> None:
    template = DeliveryTemplate({"dev": {"region": "us-east-1"}, "prod": {**TWO["prod"], "approval": False}})
    assert names(template.stages()["prod"])[0] == "ray-llm-multinode-network.Prepare"


def test_approval_shows_the_summary_and_links_to_the_change_sets(two) -> None:
    configuration = two.action("Approve-prod")["Configuration"]
    assert configuration["CustomData"] == "#{prod@Review-prod.REVIEW_SUMMARY}"
    assert configuration["ExternalEntityLink"].startswith("https://us-east-1.console.aws.amazon.com/cloudformation/")
    assert two.template["Outputs"]["PipelineUrl"]["Value"].startswith("https://us-east-1.console.aws.amazon.com/codesuite/")
    buildspec = two.buildspec("Review-prod")
    assert buildspec["env"]["exported-variables"] == ["REVIEW_SUMMARY"]
    assert buildspec["phases"]["build"]["commands"][0] == ".ci/pipeline-review assembly/assembly-DeliveryStack-prod review.txt"
    assert (two.directory / "assembly-DeliveryStack-prod" / "manifest.json").exists()


def test_review_may_prepare_change_sets_in_its_stage_only(two) -> None:
    role = two.project("Review-prod")["ServiceRole"]["Fn::GetAtt"][0]
    (assume,) = [item for item in two.statements(role) if item["Action"] == "sts:AssumeRole"]
    assert role_arns(assume["Resource"]).count("cdk-hnb659fds-") == len(assume["Resource"]) == 2
    assert all("222222222222-us-east-1" in role_arns(resource) for resource in assume["Resource"])


def test_waves_deploy_together_and_protect_what_asks_for_it(three) -> None:
    stages = three.stages()
    assert list(stages)[5:] == ["dev", "Wave-2"]
    actions = {action["Name"]: action for action in stages["Wave-2"]}
    assert {f"{stage}.{name}" for stage in ("test", "prod") for name in deployments()} <= set(actions)
    firsts = [actions["test.ray-llm-multinode-network.Prepare"], actions["prod.ray-llm-multinode-network.Prepare"]]
    assert [action["Region"] for action in firsts] == ["eu-central-1", "us-west-2"]
    assert "prod.Protect-prod" in actions or "Protect-prod" in actions
    assert not [name for name in actions if "Protect-test" in name]


def test_deployments_act_as_the_deploy_role_of_their_account(three) -> None:
    for stage, account in (("test", "222222222222"), ("prod", "333333333333")):
        for name in deployments(f"{stage}."):
            assert f"iam::{account}:role/cdk-hnb659fds-deploy-role" in role_arns(three.action(name)["RoleArn"])


def test_pipeline_may_assume_the_role_of_every_deployment(three) -> None:
    role = three.one("AWS::CodePipeline::Pipeline")["RoleArn"]["Fn::GetAtt"][0]
    assumed = "".join(role_arns(item["Resource"]) for item in three.statements(role) if item["Action"] == "sts:AssumeRole")
    wanted = {role_arns(action["RoleArn"]) for actions in three.stages().values() for action in actions if "RoleArn" in action}
    assert len(wanted) == 3
    assert all(arn in assumed for arn in wanted)


def test_each_region_has_its_artifacts(three) -> None:
    stores = {item["Region"]: item["ArtifactStore"] for item in three.one("AWS::CodePipeline::Pipeline")["ArtifactStores"]}
    assert set(stores) == {"us-east-1", "eu-central-1", "us-west-2"}
    assert stores["us-west-2"]["Location"] == f"ray-llm-multinode-delivery-{CONNECTION_ACCOUNT}-us-west-2"
    assert all(store["EncryptionKey"]["Type"] == "KMS" for store in stores.values())


def test_accounts_of_stages_may_read_their_artifacts(three) -> None:
    policy = three.stack("ray-llm-multinode-delivery-us-west-2")
    (bucket_policy,) = [item for item in policy["Resources"].values() if item["Type"] == "AWS::S3::BucketPolicy"]
    assert "333333333333" in role_arns(bucket_policy)
    assert "222222222222" not in role_arns(bucket_policy)


def test_check_takes_its_commands_from_the_stages_outputs(two) -> None:
    environment = two.environment("Check-prod")
    application = two.stack("ray-llm-multinode-ray-serve", account="222222222222")
    outputs = {"PORT_FORWARD": "PortForwardCommand", "LIST_MODELS": "ListModelsCommand", "MODEL_ID": "ModelId"}
    for variable, output in outputs.items():
        namespace, name = environment[variable].strip("#{}").split(".")
        assert (name, namespace.startswith("DeliveryStackprodRayServeStack")) == (output, True)
        assert namespace in [action.get("Namespace") for action in two.stages()["prod"]]
        # CodePipeline puts the value between the quotes of a JSON text.
        assert not set('"\\') & set(application["Outputs"][output]["Value"])
    assert environment["CLUSTER"].endswith(".ClusterName}")
    assert environment["CLUSTER_REGION"] == "us-east-1"


def test_run_that_waits_does_not_change_the_check_of_the_run_before() -> None:
    """It has updated the pipeline, and with it the environment of the builds."""
    other = DeliveryTemplate({"dev": {**ONE["dev"], "model_id": "other", "namespace": "other", "ray_service_name": "other"}})
    assert other.project("Check-dev") == DeliveryTemplate(ONE).project("Check-dev")


def test_check_goes_through_a_role_of_the_stage_that_trusts_this_pipeline_alone(two) -> None:
    application = two.stack("ray-llm-multinode-ray-serve", account="222222222222")
    by_type: dict[str, dict[str, dict[str, Any]]] = {}
    for logical_id, resource in application["Resources"].items():
        by_type.setdefault(resource["Type"], {})[logical_id] = resource["Properties"]
    name = "endpoint-check-us-east-1-ray-llm-multinode"
    ((role_id, role),) = [item for item in by_type["AWS::IAM::Role"].items() if item[1].get("RoleName") == name]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    pipeline_role = two.resources("AWS::IAM::Role")[two.project("Check-prod")["ServiceRole"]["Fn::GetAtt"][0]]
    expected = f"arn:aws:iam::{CONNECTION_ACCOUNT}:role/{pipeline_role['RoleName']}"
    assert trust["Condition"] == {"ArnEquals": {"aws:PrincipalArn": expected}}
    assert CONNECTION_ACCOUNT in role_arns(trust["Principal"])
    (policy,) = [item for item in by_type["AWS::IAM::Policy"].values() if {"Ref": role_id} in item["Roles"]]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == "eks:DescribeCluster"
    assert "*" not in json.dumps(statement["Resource"])
    (entry,) = [item for item in by_type["AWS::EKS::AccessEntry"].values() if role_id in json.dumps(item["PrincipalArn"])]
    assert entry["KubernetesGroups"] == ["endpoint-check"]
    assert not entry.get("AccessPolicies")


def test_check_may_assume_the_roles_of_reachable_stages_only(three) -> None:
    role = three.project("Check-dev")["ServiceRole"]["Fn::GetAtt"][0]
    (assume,) = [item for item in three.statements(role) if item["Action"] == "sts:AssumeRole"]
    text = role_arns(assume["Resource"])
    assert "iam::111111111111:role/endpoint-check-us-east-1-ray-llm-multinode" in text
    assert "iam::222222222222:role/endpoint-check-eu-central-1-ray-llm-multinode" in text
    assert "333333333333" not in text
    assert "*" not in text


def test_private_stage_is_left_to_its_own_verification(three) -> None:
    assert not [name for actions in three.stages().values() for name in names(actions) if "Check-prod" in name]
    assert "endpoint-check" not in json.dumps(three.stack("ray-llm-multinode-ray-serve", account="333333333333"))


def test_rights_in_the_cluster_reach_the_endpoint_and_nothing_else(two) -> None:
    application = two.stack("ray-llm-multinode-ray-serve", account="222222222222")
    manifests = [
        json.loads(item["Properties"]["Manifest"])
        for item in application["Resources"].values()
        if item["Type"] == "Custom::AWSCDK-EKS-KubernetesResource"
    ]
    ((role, binding),) = [items for items in manifests if items[0]["kind"] == "Role"]
    granted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted == {(kind, verb) for kind in ("services", "pods") for verb in ("get", "list")} | {
        ("pods/portforward", "create"),
        ("pods/portforward", "get"),
    }
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "inference"
    assert binding["subjects"][0]["name"] == "endpoint-check"


def test_stage_is_the_application_and_the_checks_access(two, synth) -> None:
    """What the CLI deploys for a stage and what the pipeline deploys for it are the same but for the check."""
    alone = synth(REGION="us-east-1", CDK_DEFAULT_ACCOUNT="222222222222", STAGE="prod")
    for stack in STACKS:
        own = two.stack(f"ray-llm-multinode-{stack}", account="222222222222")
        more = set(own["Resources"]) - set(alone[stack]["Resources"])
        assert all(name.startswith("EndpointCheck") for name in more)
        assert bool(more) is (stack == "ray-serve")
        exports = [{name for name in item["Outputs"] if name.startswith("Export")} for item in (own, alone[stack])]
        assert exports[0] == exports[1]


def test_termination_protection_is_per_stage(three) -> None:
    protected = {artifact.environment.account for artifact in three.assembly.stacks_recursively if artifact.termination_protection}
    assert protected == {"333333333333"}


def test_failures_and_waiting_approvals_are_mailed(two) -> None:
    rule = two.one("AWS::CodeStarNotifications::NotificationRule")
    assert rule["EventTypeIds"] == [
        "codepipeline-pipeline-pipeline-execution-failed",
        "codepipeline-pipeline-manual-approval-needed",
    ]
    subscription = two.one("AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "me@example.com")


def test_without_an_address_nothing_is_mailed() -> None:
    template = DeliveryTemplate(ONE)
    assert not template.resources("AWS::SNS::Topic")
    assert not template.resources("AWS::CodeStarNotifications::NotificationRule")


def test_everything_is_described_and_tagged(three) -> None:
    for name in ("ray-llm-multinode-delivery", "ray-llm-multinode-delivery-us-west-2"):
        template = three.stack(name)
        assert template["Description"]
        assert all(output.get("Description") for output in template.get("Outputs", {}).values())
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::IAM::Role":
                assert resource["Properties"].get("Description")
            if resource["Type"] in ("AWS::CodePipeline::Pipeline", "AWS::KMS::Key", "AWS::S3::Bucket"):
                assert {"project", "stage", "cluster"} <= {tag["Key"] for tag in resource["Properties"]["Tags"]}


def test_no_lookup_anywhere(any_case) -> None:
    manifests = list(any_case.directory.rglob("manifest.json"))
    assert len(manifests) > 1
    assert not [path for path in manifests if "missing" in json.loads(path.read_text())]


def test_long_cluster_names_fit_every_limit() -> None:
    name = "a" * 100
    template = DeliveryTemplate(
        {"dev": {"region": "eu-west-1", "cluster_name": name}}, CLUSTER_NAME=name, NOTIFICATION_EMAIL="me@example.com"
    )
    text = [item for artifact in template.assembly.stacks_recursively for item in artifact.template["Resources"].values()]
    role_names = [item["Properties"]["RoleName"] for item in text if "RoleName" in item["Properties"]]
    buckets = [
        item["Properties"]["BucketName"]
        for item in text
        if item["Type"] == "AWS::S3::Bucket" and "BucketName" in item["Properties"]
    ]
    assert len(role_names) >= 2
    assert all(len(role) <= 64 for role in role_names)
    assert len(buckets) == 1
    assert len(buckets[0]) <= 63
    assert len(template.one("AWS::SNS::Topic")["DisplayName"]) <= 100


def test_console_links_lead_to_the_console_of_the_partition() -> None:
    china = {"prod": {"region": "cn-north-1", "dlc_image": "registry.example.com/ray:1"}}
    arn = CONNECTION.replace("arn:aws:", "arn:aws-cn:").replace("us-east-1", "cn-northwest-1")
    template = DeliveryTemplate(china, SOURCE_CONNECTION_ARN=arn)
    link = template.action("Approve-prod")["Configuration"]["ExternalEntityLink"]
    assert link.startswith("https://cn-north-1.console.amazonaws.cn/cloudformation/")
    assert template.template["Outputs"]["PipelineUrl"]["Value"].startswith("https://cn-northwest-1.console.amazonaws.cn/codesuite/")
