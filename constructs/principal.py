"""Who assumes a role, in the type that a role takes."""

from typing import cast

from aws_cdk import aws_iam as iam


def principal(value: object) -> iam.IPrincipal:
    """`value`, a principal of the library; its Python classes name a parameter otherwise than the protocol they fulfil."""
    return cast(iam.IPrincipal, value)
