"""The preflight's questions to AWS. Each answers with a plain fact, or with Unavailable and the reason."""

from concurrent.futures import ThreadPoolExecutor, wait

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from .quota import QUOTAS, quota_of
from .request import private_image
from .unavailable import Unavailable

RETRY = Config(retries={"mode": "standard", "max_attempts": 4}, connect_timeout=5, read_timeout=10)
# Seconds for all questions together, which are asked at the same time: the preflight answers within a minute.
PATIENCE_S = 45
# Manifests and indexes of both kinds: without them ECR converts or refuses.
MEDIA_TYPES = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
]


def gather(request, *, client=None, patience_s=PATIENCE_S):
    """Every fact by its name, asked for in parallel."""
    client = client or aws_client
    # Made here: a boto3 session makes one client at a time, and using them is what threads may do.
    ec2, quotas, eks = (client(name, request.region) for name in ("ec2", "service-quotas", "eks"))
    questions = {
        "region": lambda: region_status(ec2, request.region),
        "zones": lambda: offering_zones(ec2, request.gpu_node_type),
        "elsewhere": lambda: offering_regions(ec2, request.gpu_node_type, client),
        "types": lambda: instance_types(ec2, [name for name, _ in request.node_groups]),
        "running": lambda: running_vcpus(ec2, request.cluster_name),
        "kubernetes": lambda: kubernetes_versions(eks),
        "image": image_question(request.image, client),
        **{quota.code: quota_question(quotas, quota.code) for quota in QUOTAS},
    }
    pool = ThreadPoolExecutor(max_workers=len(questions))
    asked = {name: pool.submit(answer, question) for name, question in questions.items()}
    wait(asked.values(), timeout=patience_s)
    pool.shutdown(wait=False, cancel_futures=True)
    late = Unavailable(f"AWS did not answer within {patience_s} seconds")
    return {name: future.result() if future.done() and not future.cancelled() else late for name, future in asked.items()}


def answer(question):
    """The fact, or why there is none."""
    try:
        return question()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown error")
        refused = any(word in code for word in ("AccessDenied", "Unauthorized", "AuthFailure", "UnrecognizedClient"))
        return Unavailable(f"{'not allowed to call' if refused else 'no answer from'} {error.operation_name}: {code}")
    except BotoCoreError as error:
        return Unavailable(f"no answer: {type(error).__name__}")


def aws_client(service, region):
    """A client with bounded waits."""
    return boto3.client(service, region_name=region, config=RETRY)


def region_status(ec2, region):
    """EC2's opt-in status of the region."""
    found = ec2.describe_regions(AllRegions=True, RegionNames=[region])["Regions"]
    return found[0].get("OptInStatus", "opt-in-not-required") if found else "unknown to EC2"


def offering_zones(ec2, instance_type):
    """Zones of the region that offer the type, sorted."""
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [instance_type]}]
    )
    return sorted(offering["Location"] for page in pages for offering in page["InstanceTypeOfferings"])


def offering_regions(ec2, instance_type, client):
    """Other regions of the account that offer the type, sorted; [] without a search where this one does."""
    if offering_zones(ec2, instance_type):
        return []
    regions = sorted(row["RegionName"] for row in ec2.describe_regions()["Regions"])
    return [region for region in regions if offering_zones(client("ec2", region), instance_type)]


def instance_types(ec2, names):
    """vCPUs, memory, EFA and architectures of those types that EC2 knows; a filter, since an unknown name would be an error."""
    pages = ec2.get_paginator("describe_instance_types").paginate(Filters=[{"Name": "instance-type", "Values": sorted(set(names))}])
    return {
        row["InstanceType"]: {
            "vcpus": row["VCpuInfo"]["DefaultVCpus"],
            "memory_mib": row["MemoryInfo"]["SizeInMiB"],
            "efa": row.get("NetworkInfo", {}).get("EfaSupported", False),
            "architectures": row.get("ProcessorInfo", {}).get("SupportedArchitectures", ["x86_64"]),
        }
        for page in pages
        for row in page["InstanceTypes"]
    }


def running_vcpus(ec2, cluster_name):
    """vCPUs of on-demand instances by quota code, without this cluster's own nodes, which an update does not add again."""
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    found = {}
    for page in pages:
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
                quota = quota_of(instance["InstanceType"])
                if quota is None or instance.get("InstanceLifecycle") or tags.get("eks:cluster-name") == cluster_name:
                    continue
                cpu = instance.get("CpuOptions", {})
                found[quota.code] = found.get(quota.code, 0) + cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 1)
    return found


def kubernetes_versions(eks):
    """Versions of which EKS makes clusters, sorted by number."""
    pages = eks.get_paginator("describe_cluster_versions").paginate()
    rows = [row for page in pages for row in page["clusterVersions"]]
    usable = {row["clusterVersion"] for row in rows if row.get("versionStatus", "").upper() != "UNSUPPORTED"}
    return sorted(usable, key=lambda version: [int(part) for part in version.split(".")])


def quota_question(quotas, code):
    """Asks for the applied limit; where none was ever applied, for AWS's default."""

    def ask():
        arguments = {"ServiceCode": "ec2", "QuotaCode": code}
        try:
            return quotas.get_service_quota(**arguments)["Quota"]["Value"]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "NoSuchResourceException":
                raise
            return quotas.get_aws_default_service_quota(**arguments)["Quota"]["Value"]

    return ask


def image_question(image, client):
    """Asks the image's registry, as a node that pulls it does: what is wrong with the image, or "" if nothing is."""
    found = private_image(image)
    if found is None:
        return lambda: Unavailable("only images in Amazon ECR are looked up")
    account, region, repository, image_id = found
    ecr = client("ecr", region)

    def ask():
        try:
            reply = ecr.batch_get_image(
                registryId=account, repositoryName=repository, imageIds=[image_id], acceptedMediaTypes=MEDIA_TYPES
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "RepositoryNotFoundException":
                raise
            return f"registry {account} has no repository {repository}"
        if reply.get("images"):
            return ""
        failures = [failure.get("failureCode", "") for failure in reply.get("failures", [])]
        return f"the registry says {', '.join(failures) or 'nothing about it'}"

    return ask
