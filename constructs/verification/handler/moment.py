"""Points in time as the Kubernetes API writes them."""

from datetime import UTC, datetime


def moment(timestamp):
    """The point in time, UTC where it names no zone; None for what is no timestamp."""
    try:
        made = datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        return None
    return made if made.tzinfo else made.replace(tzinfo=UTC)
