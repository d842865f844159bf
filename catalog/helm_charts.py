"""The Helm charts that a deployment installs."""

CHARTS = ("kuberay-operator", "nvidia-device-plugin", "aws-efa-k8s-device-plugin")
"""What a repository of CHART_REPOSITORY serves, each at the version that its file in charts/ names."""
