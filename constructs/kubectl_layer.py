"""The Lambda layer with kubectl and helm for a Kubernetes version."""

from importlib import import_module
from typing import cast

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from catalog.kubernetes_version import KubernetesVersion


def kubectl_layer(scope: Construct, id: str, *, version: KubernetesVersion) -> lambda_.ILayerVersion:
    """The layer whose kubectl is within one minor version of the cluster, as Kubernetes' skew policy asks.

    Only the chosen layer's package is imported: each costs about half a second of every synth.
    """
    number = cast(str, version.kubectl_layer)
    module = import_module(f"aws_cdk.lambda_layer_kubectl_{number}")
    return getattr(module, f"Kubectl{number.upper()}Layer")(scope, id)
