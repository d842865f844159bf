"""Facts about AWS that the stacks rest on: TOML with sources, and lookups into it.

Nothing is read on import; each function reads its file on its first call and keeps the result.
"""
