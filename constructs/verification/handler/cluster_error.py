"""The cluster could not be asked."""


class ClusterError(Exception):
    """Says what was asked and what came back. `status` is the HTTP status, 0 where there was no answer at all."""

    def __init__(self, text, *, status=0):
        super().__init__(text)
        self.status = status
