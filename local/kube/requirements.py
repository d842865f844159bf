"""What a local Kubernetes needs of this machine, asked before anything starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

# Command: the package that has it. KubeRay's probes run wget.
_COMMANDS = {"ip": "iproute2", "nsenter": "util-linux", "openssl": "openssl", "wget": "wget"}
# The first with mount_setattr, which makes a container's files read-only.
_LINUX = (5, 12)
# The first whose `req` signs with another key (-CA).
_OPENSSL = (3, 0)


def missing_on_this_machine() -> list[str]:
    """What to install or upgrade, one phrase each; of a Linux machine."""
    absent = [name for name in _COMMANDS if not shutil.which(name)]
    problems = [f"the command {name}: install {_COMMANDS[name]}" for name in absent]
    if "openssl" not in absent:
        said = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False).stdout
        problems += _older("OpenSSL", said.removeprefix("OpenSSL "), _OPENSSL)
    return problems + _older("Linux", os.uname().release, _LINUX)


def _older(what: str, said: str, minimum: tuple[int, int]) -> list[str]:
    version = re.match(r"(\d+)\.(\d+)", said)
    if version and (int(version[1]), int(version[2])) >= minimum:
        return []
    return [f"{what} {'.'.join(map(str, minimum))} or later, found: {said.strip() or 'none'}"]
