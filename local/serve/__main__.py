"""`python -m local.serve`: the template's RayService with an engine that needs no GPU."""

from __future__ import annotations

import argparse
import sys

from local.serve.engine_environment import engine_environment
from local.serve.local_run import add_arguments, run

_START_TIMEOUT_S = 180


def main() -> int:
    """The exit status, as of `run`."""
    parser = argparse.ArgumentParser(prog="python -m local.serve", description=__doc__)
    add_arguments(parser)
    asked = parser.parse_args()
    return run(
        assembly=asked.assembly,
        keep=asked.keep,
        environment=engine_environment(),
        start_timeout_s=_START_TIMEOUT_S,
        config_of=lambda service: service.serve_config,
    )


if __name__ == "__main__":
    sys.exit(main())
