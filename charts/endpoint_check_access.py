"""What the pipeline's check of the endpoint may do inside the cluster."""

ENDPOINT_CHECK_GROUP = "endpoint-check"
"""The Kubernetes group that the access entry of the check's IAM role names."""


def endpoint_check_access(*, namespace: str) -> list[dict]:
    """A Role to find the serving pods of `namespace` and forward a port to them, bound to ENDPOINT_CHECK_GROUP.

    Forwarding over WebSockets is authorized as `create`, and as `get` up to Kubernetes 1.34.
    """
    metadata = {"name": ENDPOINT_CHECK_GROUP, "namespace": namespace}
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [
                {"apiGroups": [""], "resources": ["services", "pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ENDPOINT_CHECK_GROUP},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": ENDPOINT_CHECK_GROUP}],
        },
    ]
