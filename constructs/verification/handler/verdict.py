"""What one look at the cluster amounts to."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`kind` is one of

    wait     not there yet; `text` says what is missing
    fail     it will not mend itself; `text` is the cause and the way out
    replace  Ray clusters in `clusters` run an outdated configuration that KubeRay would keep for good
    serving  everything runs; the evidence can be taken
    """

    kind: str
    text: str = ""
    clusters: tuple = field(default=())
