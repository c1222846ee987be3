"""`python -m tests.cluster up|down NAME`: see scripts/cluster-up. `build NAME`: what up needs, and no more."""

import sys
import time

from driver import resources
from tests.cluster import cluster
from tests.cluster.machines import MachineError

_USAGE = "usage: scripts/cluster-up [NAME], scripts/cluster-down [NAME]"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("up", "down", "build") or not arguments[1].isidentifier():
        print(_USAGE, file=sys.stderr)
        return 2
    verb, name = arguments
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {what}", flush=True)

    try:
        if verb == "down":
            print("The cluster is down." if cluster.stop(name) else f"There is no cluster {name}.")
            return 0
        if verb == "build":
            cluster.build()
            return 0
        started = cluster.start(name, say)
    except (cluster.ClusterError, MachineError, TimeoutError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(
        f"\n  export KUBECONFIG={started.kubeconfig} PATH={resources.cache_dir() / 'bin'}:$PATH\n"
        "  kubectl get nodes\n"
        "  helm install demo charts/maxtext-multislice -f values/tiny.yaml -f tests/cluster/site.values.yaml"
        f" --set storage.bucket={cluster.BUCKET}\n\n"
        f"The bucket is the folder {started.buckets / cluster.BUCKET}."
        f" {cluster.BUCKET_USER} (namespace/service account) may use it."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
