"""Names that AWS limits in length."""

from hashlib import sha256


def bounded_name(name: str, limit: int) -> str:
    """`name`, or its beginning and a digest of all of it, so that two long names stay different."""
    return name if len(name) <= limit else f"{name[: limit - 9]}-{sha256(name.encode()).hexdigest()[:8]}"
