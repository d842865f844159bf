"""Stands for a device plugin: reports to the node agent which devices of one kind the node has.

A real plugin and the kubelet talk gRPC over sockets in the same folder. Here a file in it holds the list, and a lock on the
file says that the plugin lives: the node agent offers no devices of a plugin that is gone.

Environment: RESOURCE, the name that pods ask for; DEVICES, a pattern of device files. Standard library only.
"""

import fcntl
import glob
import json
import os
import signal
import sys

FOLDER = "/var/lib/kubelet/device-plugins"


def main():
    resource = os.environ["RESOURCE"]
    found = sorted(glob.glob(os.environ["DEVICES"]))
    path = os.path.join(FOLDER, resource.replace("/", "_") + ".json")
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(json.dumps({"resource": resource, "devices": found}))
        file.flush()
        print(f"{resource}: {len(found)} devices: {', '.join(found) or 'none'}", flush=True)
        if not found:
            return 1
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    sys.exit(main())
