"""Measures NCCL all-reduce bandwidth across the GPU workers of this Ray cluster.

Runs inside the head pod. mpirun starts a process on every worker through Ray instead of ssh: it calls this file as its
remote shell agent, and the agent runs the given command as a Ray task pinned to that worker.

Every GPU needs about 1 GiB of free memory; the model leaves that much at the default settings. Traffic of the running
service lowers the figures, so measure while nothing is asked of it.
"""

import subprocess
import sys
import tempfile

import ray

BENCHMARK = "/usr/local/bin/all_reduce_perf"
FREE_MIB = 1024


@ray.remote(num_cpus=0)
def run(command):
    return subprocess.run(["bash", "-c", command], check=False).returncode


@ray.remote(num_cpus=0)
def free_memory_mib():
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    return [int(line) for line in subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()]


def on_node(function, address):
    return function.options(resources={f"node:{address}": 0.001})


def agent(host, *command):
    """What mpirun calls in place of ssh: `<agent> <host> <command...>`."""
    ray.init(address="auto", logging_level="ERROR")
    return ray.get(on_node(run, host).remote(" ".join(command)))


def main():
    ray.init(address="auto", logging_level="ERROR")
    workers = {node["NodeManagerAddress"]: int(node["Resources"]["GPU"]) for node in ray.nodes() if node["Resources"].get("GPU")}
    if len(workers) < 2:
        sys.exit(f"needs two GPU workers, found {len(workers)}: {', '.join(workers) or 'none'}")
    for address in workers:
        least = min(ray.get(on_node(free_memory_mib, address).remote()))
        if least < FREE_MIB:
            sys.exit(f"a GPU of worker {address} has {least} MiB free and the test needs {FREE_MIB}: free it first")
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
        hosts.write("".join(f"{address} slots={gpus}\n" for address, gpus in workers.items()))
        hosts.flush()
        command = ["mpirun", "--allow-run-as-root", "--hostfile", hosts.name, "-np", str(sum(workers.values()))]
        command += ["--mca", "plm_rsh_agent", f"{sys.executable} {__file__} --agent", "--mca", "plm_rsh_no_tree_spawn", "1"]
        command += ["-x", "FI_PROVIDER=efa", "-x", "NCCL_DEBUG=WARN", "-x", "LD_LIBRARY_PATH", "-x", "PATH"]
        return subprocess.run(
            [*command, BENCHMARK, "-b", "1M", "-e", "64M", "-f", "2", "-g", "1", "-c", "0"], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(agent(*sys.argv[2:]) if sys.argv[1:2] == ["--agent"] else main())
