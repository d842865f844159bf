"""The namespace of the service, and what the verification may do in it."""

from typing import Any

from cdk8s import ApiObject, ApiObjectMetadata, Chart, JsonPatch
from constructs import Construct

_SERVE_PORT = 8000


class NamespaceAccess(Chart):
    """The namespace, and a Role in it with exactly the verbs that the verification and the teardown use.

    Apart from the RayService, because the teardown still looks at the namespace after the RayService is deleted.
    """

    def __init__(self, scope: Construct, id: str, *, namespace: str, ray_service: str, group: str) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        ApiObject(self, "Namespace", api_version="v1", kind="Namespace", metadata=ApiObjectMetadata(name=namespace))
        metadata = ApiObjectMetadata(name=f"{ray_service}-verification", namespace=namespace)
        role = ApiObject(self, "Role", api_version="rbac.authorization.k8s.io/v1", kind="Role", metadata=metadata)
        role.add_json_patch(JsonPatch.add("/rules", _rules(ray_service)))
        binding = ApiObject(self, "RoleBinding", api_version="rbac.authorization.k8s.io/v1", kind="RoleBinding", metadata=metadata)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"{ray_service}-verification"}
        binding.add_json_patch(JsonPatch.add("/roleRef", reference))
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
        binding.add_json_patch(JsonPatch.add("/subjects", [subject]))


def _rules(ray_service: str) -> list[dict[str, Any]]:
    return [
        {"apiGroups": ["ray.io"], "resources": ["rayservices"], "resourceNames": [ray_service], "verbs": ["get"]},
        # A Ray cluster with an outdated configuration; KubeRay makes a new one, whose name nobody knows beforehand.
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["delete"]},
        # Events are where KubeRay says that it refuses a RayService.
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list"]},
        # The log of a crashing pod, and GET on Ray's dashboard, metrics and the worker's report.
        {"apiGroups": [""], "resources": ["pods/log", "pods/proxy"], "verbs": ["get"]},
        # POST of the chat completion.
        {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": [f"{ray_service}-serve-svc:{_SERVE_PORT}"],
            "verbs": ["create"],
        },
    ]
