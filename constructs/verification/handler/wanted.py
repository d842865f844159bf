"""What the deployment wants to see."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The properties of Custom::Verification, typed."""

    namespace: str
    ray_service: str
    workers: int
    cluster_digest: str
    serve_digest: str
    model: str
    max_model_len: int
    kv_backend: str
    verify: str

    @classmethod
    def of_properties(cls, properties):
        """CloudFormation delivers every value as a string."""
        return cls(
            namespace=properties["Namespace"],
            ray_service=properties["RayService"],
            workers=int(properties["Workers"]),
            cluster_digest=properties["ClusterDigest"],
            serve_digest=properties["ServeDigest"],
            model=properties["Model"],
            max_model_len=int(properties["MaxModelLen"]),
            kv_backend=properties["KvBackend"],
            verify=properties["Verify"],
        )
