"""etcd, API server, controller manager and scheduler of a test cluster, with TLS and RBAC on."""

import os
import select
import signal
import ssl
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.machines import Machine, Process
from tests.cluster.network import Addresses
from tests.cluster.pki import Authority
from tests.cluster.programs import Programs

PORT = 6443
NODE_GRACE_SECONDS = 20
"""After so long without news of a kubelet its node counts as lost; 50 is Kubernetes' default."""

_START_SECONDS = 120.0
_ISSUER = "https://kubernetes.default.svc"


@dataclass(frozen=True)
class ControlPlane:
    """server: the API server's address for the nodes. admin: kubeconfig of an administrator on the machine below."""

    machine: Machine
    authority: Authority
    server: str
    admin: Path
    processes: tuple[Process, ...]

    @classmethod
    def of(cls, machine: Machine, folder: Path, addresses: Addresses) -> "ControlPlane":
        """The control plane that was started before, without its processes."""
        authority = Authority.load(folder / "pki")
        return cls(machine, authority, _server(addresses), authority.folder / "admin.kubeconfig", ())

    def check(self) -> None:
        for process in self.processes:
            process.check()


def start(machine: Machine, folder: Path, addresses: Addresses, programs: Programs) -> ControlPlane:
    """Starts the control plane and waits until its API server is ready."""
    server = _server(addresses)
    authority = Authority.create(folder / "pki")
    admin = _issue(authority, addresses, server)
    logs, pki = folder / "log", authority.folder
    binaries = programs.kubernetes
    etcd = _etcd(machine, folder, programs)
    api_server = machine.spawn(
        logs / "kube-apiserver.log", _api_server(binaries, pki, addresses), {"GOMEMLIMIT": "600MiB"}
    )
    _wait_until_ready(admin, (etcd, api_server))
    # Only now: before the API server has made its RBAC rules, these two are refused and end.
    controllers = [
        *(str(binaries / "kube-controller-manager"), *_client(pki, "controller-manager"), "--bind-address=127.0.0.1"),
        *(f"--root-ca-file={authority.certificate}", f"--service-account-private-key-file={pki}/service-accounts.key"),
        *("--use-service-account-credentials", "--leader-elect=false", f"--cluster-cidr={addresses.all_pods}"),
        *(f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s", "--allocate-node-cidrs=false"),
    ]
    scheduler = [
        *(str(binaries / "kube-scheduler"), *_client(pki, "scheduler")),
        *("--bind-address=127.0.0.1", "--leader-elect=false"),
    ]
    others = (
        machine.spawn(logs / "kube-controller-manager.log", controllers),
        machine.spawn(logs / "kube-scheduler.log", scheduler),
    )
    return ControlPlane(machine, authority, server, admin, (etcd, api_server, *others))


def restart_api_server(plane: ControlPlane, folder: Path) -> None:
    """Ends the API server at once, and waits until another one with its arguments is ready."""
    (process,) = [
        path for path in Path("/proc").glob("[0-9]*")
        if (arguments := _arguments(path)) and arguments[0].endswith("kube-apiserver")
        and any(str(folder) in argument for argument in arguments)
    ]  # fmt: skip
    command = _arguments(process)
    end = os.pidfd_open(int(process.name))
    os.kill(int(process.name), signal.SIGKILL)
    select.select([end], [], [])  # all of its threads have ended, and given its port back
    os.close(end)
    started = plane.machine.spawn(folder / "log" / "kube-apiserver.log", command, {"GOMEMLIMIT": "600MiB"})
    _wait_until_ready(plane.admin, (started,))


def _arguments(process: Path) -> list[str]:
    """A process's command line; empty where it has ended."""
    try:
        return [argument for argument in (process / "cmdline").read_text().split("\0") if argument]
    except OSError:
        return []


def _server(addresses: Addresses) -> str:
    return f"https://{addresses.control_plane}:{PORT}"


def _issue(authority: Authority, addresses: Addresses, server: str) -> Path:
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    names += ["localhost", "127.0.0.1", addresses.api_service, addresses.control_plane, addresses.api_from_below]
    authority.issue("apiserver", *names)
    authority.issue("apiserver-kubelet", user="kube-apiserver", group="system:masters")
    authority.signing_key("service-accounts.key")
    authority.user("controller-manager", server, "system:kube-controller-manager")
    authority.user("scheduler", server, "system:kube-scheduler")
    return authority.user("admin", f"https://{addresses.api_from_below}:{PORT}", "admin", "system:masters")


def _etcd(machine: Machine, folder: Path, programs: Programs) -> Process:
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    command = [
        *(str(programs.etcd), f"--data-dir={folder}/etcd", "--log-level=warn"),
        *(f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"),
        *(f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"),
        "--unsafe-no-fsync",  # the cluster does not outlive the machine's memory
    ]
    return machine.spawn(folder / "log" / "etcd.log", command)


def _api_server(binaries: Path, pki: Path, addresses: Addresses) -> list[str]:
    return [
        *(str(binaries / "kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", f"--secure-port={PORT}"),
        *(f"--advertise-address={addresses.control_plane}", f"--service-cluster-ip-range={addresses.services}"),
        *(f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key"),
        *(f"--client-ca-file={pki}/ca.crt", "--anonymous-auth=false", "--authorization-mode=Node,RBAC"),
        *(f"--service-account-issuer={_ISSUER}", f"--service-account-key-file={pki}/service-accounts.key"),
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet.key",
        *(f"--kubelet-certificate-authority={pki}/ca.crt", "--kubelet-preferred-address-types=InternalIP"),
        *("--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"),
    ]


def _client(pki: Path, user: str) -> list[str]:
    file = pki / f"{user}.kubeconfig"
    return [f"--{use}kubeconfig={file}" for use in ("", "authentication-", "authorization-")]


def _wait_until_ready(admin: Path, processes: tuple[Process, ...]) -> None:
    pki = admin.parent
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    directly = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    server = yaml.safe_load(admin.read_text())["clusters"][0]["cluster"]["server"]
    deadline = time.monotonic() + _START_SECONDS
    while True:
        for process in processes:
            process.check()
        try:
            with directly.open(f"{server}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API server is not ready: {error}") from error
        time.sleep(0.2)
