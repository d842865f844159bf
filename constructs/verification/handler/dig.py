"""Values out of JSON that someone else wrote."""


def dig(value, *keys, default=None):
    """The value under `keys`, or `default` where a key is missing or anything on the way, or the value, has another type.

    The type is that of `default`; with None any type will do.
    """
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    if default is not None and not (isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool)):
        return default
    return value


def items(value, *keys):
    """The objects of the list under `keys`; what is no object is left out."""
    return [item for item in dig(value, *keys, default=[]) if isinstance(item, dict)]


def named(value, *keys):
    """(name, object) of the object of objects under `keys`, sorted by name."""
    return [(str(name), item) for name, item in sorted(dig(value, *keys, default={}).items()) if isinstance(item, dict)]
