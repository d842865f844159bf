"""Chooses availability zones and the GPU subnet at deploy time, so that synth needs no credentials.

Two custom resource types share this function, because both answer the same question of the same API:

Custom::GpuZones   which zones the VPC covers. Chosen once: an update never moves a subnet.
Custom::GpuSubnet  which of those subnets takes the GPU nodes. Kept for as long as its zone offers the type.

The provider framework delivers the answer; an exception's text becomes the reason in the CloudFormation event.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (subnet requirements), read 2026-12-02
ZONE_IDS_WITHOUT_CONTROL_PLANE = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
ZONES_PREFIX = "gpu-zones:"
SUBNET_PREFIX = "gpu-subnet:"
RETRY = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=15)
QUICK = Config(retries={"mode": "standard", "max_attempts": 1}, connect_timeout=3, read_timeout=5)


class GpuZonesError(Exception):
    """Says what is wrong and the way out."""


def choose_zones(*, offering, usable, wanted_zone, instance_type, count, regions_offering):
    """The zones for `count` subnets, the one for GPU nodes first.

    Zones that offer the type come first, each part sorted. With fewer zones than subnets they are used again in the
    same order: EKS asks for two different zones, and a subnet in a zone that has one already costs nothing.
    """
    offered_here = sorted(set(offering) & set(usable))
    if wanted_zone:
        if wanted_zone not in usable:
            raise GpuZonesError(f"GPU_AZ={wanted_zone} is not a zone that EKS can use here; usable are {listed(usable)}.")
        if wanted_zone not in offered_here:
            raise GpuZonesError(not_offered(instance_type, f"in GPU_AZ={wanted_zone}", offered_here, regions_offering))
        offered_here = [wanted_zone, *(zone for zone in offered_here if zone != wanted_zone)]
    if not offered_here:
        raise GpuZonesError(not_offered(instance_type, "in any zone that EKS can use here", offered_here, regions_offering))
    ordered = offered_here + sorted(set(usable) - set(offered_here))
    if len(ordered) < 2:
        raise GpuZonesError(f"EKS needs two availability zones and this region has {listed(ordered)} only.")
    return [ordered[index % len(ordered)] for index in range(count)]


def choose_subnet(*, subnets, offering, wanted_zone, current_subnet, instance_type, regions_offering):
    """The (subnet id, zone) for GPU nodes out of `subnets`, a list of (subnet id, zone) in order of preference."""
    fitting = [(subnet, zone) for subnet, zone in subnets if zone in offering]
    covered = sorted({zone for _, zone in subnets})
    if wanted_zone:
        fitting_wanted = [(subnet, zone) for subnet, zone in fitting if zone == wanted_zone]
        if not fitting_wanted and wanted_zone in offering:
            raise GpuZonesError(
                f"GPU_AZ={wanted_zone} is outside this VPC, which covers {listed(covered)} and keeps its zones for life. "
                f"Choose one of {listed(sorted({zone for _, zone in fitting}))}, or deploy under another CLUSTER_NAME."
            )
        if not fitting_wanted:
            raise GpuZonesError(not_offered(instance_type, f"in GPU_AZ={wanted_zone}", sorted(offering), regions_offering))
        return fitting_wanted[0]
    for subnet, zone in fitting:
        if subnet == current_subnet:
            return subnet, zone
    if not fitting:
        raise GpuZonesError(
            not_offered(instance_type, f"in the zones of this VPC ({listed(covered)})", sorted(offering), regions_offering)
        )
    return fitting[0]


def not_offered(instance_type, where, offering, regions_offering):
    """One sentence about what is missing, one about where the type is."""
    here = f"This region offers it in {listed(offering)}." if offering else "This region does not offer it."
    there = f" Regions that offer it: {listed(regions_offering)}." if regions_offering else ""
    return f"GPU_NODE_TYPE={instance_type} is not offered {where}. {here}{there}"


def listed(names):
    """Names for a sentence."""
    return ", ".join(names) if names else "none"


def zones_of_physical_id(physical_id):
    """The zones an earlier create chose, or [] where there was none."""
    return physical_id.removeprefix(ZONES_PREFIX).split(",") if physical_id.startswith(ZONES_PREFIX) else []


def zones_answer(zones):
    """CloudFormation's answer for Custom::GpuZones. The physical id carries the choice, which is how it is remembered."""
    data = {f"Zone{number}": zone for number, zone in enumerate(zones, start=1)}
    return {"PhysicalResourceId": ZONES_PREFIX + ",".join(zones), "Data": data}


def offering_zones(ec2, instance_type):
    """Zones of this region that offer the type."""
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [instance_type]}]
    )
    return sorted(offering["Location"] for page in pages for offering in page["InstanceTypeOfferings"])


def usable_zones(ec2):
    """Ordinary zones, open to this account, in which EKS places control planes."""
    zones = ec2.describe_availability_zones(
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}, {"Name": "state", "Values": ["available"]}]
    )["AvailabilityZones"]
    return sorted(zone["ZoneName"] for zone in zones if zone["ZoneId"] not in ZONE_IDS_WITHOUT_CONTROL_PLANE)


def zones_for_both(usable, offering_system):
    """Zones that EKS can use and that offer the system nodes' type, which spread over all of them.

    Where that leaves fewer than two, the node group's own error says more than this function could.
    """
    both = sorted(set(usable) & set(offering_system))
    return both if len(both) > 1 else usable


def regions_that_offer(instance_type):
    """Regions of this account that offer the type, as far as they answer; it only improves a failure's text."""
    try:
        regions = sorted(region["RegionName"] for region in client().describe_regions()["Regions"])
    except (BotoCoreError, ClientError):
        return []
    with ThreadPoolExecutor(max_workers=16) as pool:
        offers = pool.map(lambda region: offers_in(region, instance_type), regions)
        return [region for region, offered in zip(regions, offers, strict=True) if offered]


def offers_in(region, instance_type):
    """Whether a region offers the type; a region that denies the question counts as no."""
    try:
        return bool(offering_zones(client(region, QUICK), instance_type))
    except (BotoCoreError, ClientError):
        return False


def client(region=None, config=RETRY):
    """An EC2 client with bounded waits."""
    return boto3.client("ec2", region_name=region or os.environ["AWS_REGION"], config=config)


def create_zones(event):
    """Keep an earlier choice, else choose."""
    properties = event["ResourceProperties"]
    count = int(properties["Count"])
    chosen = zones_of_physical_id(event.get("PhysicalResourceId", ""))
    if chosen:
        return zones_answer(chosen)
    ec2 = client()
    instance_type = properties["InstanceType"]
    arguments = {
        "offering": offering_zones(ec2, instance_type),
        "usable": zones_for_both(usable_zones(ec2), offering_zones(ec2, properties["SystemInstanceType"])),
        "wanted_zone": properties.get("WantedZone", ""),
        "instance_type": instance_type,
        "count": count,
    }
    return zones_answer(with_regions(choose_zones, arguments))


def create_subnet(event):
    """Choose among the VPC's subnets, keeping the current one where it still fits."""
    properties = event["ResourceProperties"]
    instance_type = properties["InstanceType"]
    arguments = {
        "subnets": list(zip(properties["SubnetIds"], properties["Zones"], strict=True)),
        "offering": offering_zones(client(), instance_type),
        "wanted_zone": properties.get("WantedZone", ""),
        "current_subnet": event.get("PhysicalResourceId", "").removeprefix(SUBNET_PREFIX),
        "instance_type": instance_type,
    }
    subnet, zone = with_regions(choose_subnet, arguments)
    return {"PhysicalResourceId": SUBNET_PREFIX + subnet, "Data": {"SubnetId": subnet, "Zone": zone}}


def with_regions(choose, arguments):
    """Look at other regions only once the choice has failed: that takes seconds, and only the failure's text needs it."""
    try:
        return choose(**arguments, regions_offering=[])
    except GpuZonesError:
        return choose(**arguments, regions_offering=regions_that_offer(arguments["instance_type"]))


CREATE = {"Custom::GpuZones": create_zones, "Custom::GpuSubnet": create_subnet}


def handler(event, context):
    """Entry point for the provider framework. Deleting needs no work: nothing was made outside the answer."""
    del context
    if event["RequestType"] == "Delete":
        return {"PhysicalResourceId": event["PhysicalResourceId"]}
    return CREATE[event["ResourceType"]](event)
