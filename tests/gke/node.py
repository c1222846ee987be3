"""Plays what GKE adds to one node: DRANET's driver and the GCS FUSE CSI driver, for the node's kubelet.

    python -m tests.gke.node --kubeconfig FILE --node NAME --kubelet-dir DIR --buckets DIR --hosts N

Runs as root in the node's mount namespace. Prints `serving` when its sockets are there, `registered DRIVER` each time
that the kubelet takes a driver in, and a line for each thing that it does. Ends clean on SIGTERM.
"""

import argparse
import signal
import sys
import threading
from pathlib import Path

from tests.gke import dranet, gcsfuse
from tests.gke.api import Api


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.gke.node", description="Plays what GKE adds to one node.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--node", required=True, help="the node's name")
    parser.add_argument("--kubelet-dir", type=Path, required=True, help="the kubelet's --root-dir")
    parser.add_argument("--buckets", type=Path, required=True, help="a folder with one folder per bucket")
    parser.add_argument("--hosts", type=int, required=True, help="TPU hosts that the node plays; 0: no network devices")
    parser.add_argument("--devices-per-host", type=int, default=2)
    options = parser.parse_args(arguments)
    if not options.buckets.is_dir():
        parser.error(f"--buckets {options.buckets} is no folder")
    if options.hosts < 0 or options.devices_per_host < 1:
        parser.error("--hosts must be at least 0 and --devices-per-host at least 1")
    kubelet = options.kubelet_dir.resolve()
    api = Api(options.kubeconfig)
    drivers: list[dranet.Driver | gcsfuse.Driver] = [
        gcsfuse.Driver(api, options.node, kubelet, options.buckets.resolve())
    ]
    if options.hosts:
        drivers.append(dranet.Driver(api, options.node, kubelet, options.hosts, options.devices_per_host))
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    try:
        for driver in drivers:
            driver.start()
    except ValueError as error:
        print(f"Error: {error}", flush=True)
        return 1
    print("serving", flush=True)
    end.wait()
    for driver in drivers:
        driver.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
