"""What every node of the cluster has in common."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

# The DLC image unpacked and its compressed layers (about 40 GiB), the weights of a 9B model twice (download and cache,
# 36 GiB), and room for a model several times that size.
_VOLUME_GIB = 200
# FastImagePull unpacks layers in parallel and wants 600 MiB/s or more; gp3 gives 0.25 MiB/s per IOPS, so the 3,000 IOPS
# that gp3 includes carry 750 MiB/s. https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html, 2026-12-02
_VOLUME_MIBPS = 750


class NodeLaunchTemplate(ec2.LaunchTemplate):
    """IMDSv2 only, one encrypted gp3 volume sized for the image and the weights, images pulled in parallel.

    With `instance_store`, kubelet, containerd and the pods' local storage move to a RAID0 of the instance's NVMe disks.
    The hop limit of 2 lets pods reach the metadata service through their own network namespace.
    """

    def __init__(self, scope: Construct, id: str, *, instance_type: str, instance_store: bool = False) -> None:
        super().__init__(
            scope,
            id,
            instance_type=ec2.InstanceType(instance_type),
            require_imdsv2=True,
            http_put_response_hop_limit=2,
            block_devices=[
                ec2.BlockDevice(
                    device_name="/dev/xvda",
                    volume=ec2.BlockDeviceVolume.ebs(
                        _VOLUME_GIB,
                        encrypted=True,
                        volume_type=ec2.EbsDeviceVolumeType.GP3,
                        iops=3000,
                        throughput=_VOLUME_MIBPS,
                        delete_on_termination=True,
                    ),
                )
            ],
            user_data=_node_config(instance_store=instance_store),
        )


def _node_config(*, instance_store: bool) -> ec2.MultipartUserData:
    """nodeadm's NodeConfig; EKS adds the cluster's part. https://awslabs.github.io/amazon-eks-ami/nodeadm/"""
    lines = ["apiVersion: node.eks.aws/v1alpha1", "kind: NodeConfig", "spec:", "  featureGates:", "    FastImagePull: true"]
    if instance_store:
        lines += ["  instance:", "    localStorage:", "      strategy: RAID0"]
    user_data = ec2.MultipartUserData()
    user_data.add_part(
        ec2.MultipartBody.from_raw_body(
            content_type="application/node.eks.aws", transfer_encoding="7bit", body="\n".join(lines) + "\n"
        )
    )
    return user_data
