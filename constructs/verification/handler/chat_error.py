"""The endpoint gave no answer to a chat completion, and will give none."""

from .cluster_error import ClusterError


class ChatError(ClusterError):
    """A ClusterError that waiting does not mend: the service says that it runs, and refuses or fails a plain request."""
