"""What other stacks may import, whether or not a setting makes them."""

from aws_cdk import Stack


def export(stack: Stack, **values: str) -> None:
    """Export `values`, each described by its keyword with spaces for underscores.

    An export that only exists while something imports it disappears with that something, and CloudFormation refuses to
    delete an export in use. Made here, the set of exports never changes.
    """
    for name, value in values.items():
        stack.export_value(value, description=name.replace("_", " "))
