"""Google Cloud on loopback: one server that speaks the REST protocols of all the APIs that the driver uses.

It keeps what the APIs' resources are as plain JSON, refuses what Google refuses, and can delay, fail, cut and kill
(tests/gcp/faults.py). What it knows of Google's rules stands next to where it applies them, one module per API.
"""

from __future__ import annotations

import copy
import re
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple

from google.oauth2.credentials import Credentials

from tests.gcp import (
    artifacts,
    billing,
    builds,
    compute,
    container,
    folders,
    kubernetes,
    node_pools,
    places,
    projects,
    quotas,
    resource_policies,
    services,
    storage,
)
from tests.gcp.errors import GoogleError, permission_denied, service_disabled, unknown_project
from tests.gcp.faults import Answer, Cut, Delay, Fail, Fault, Faults, Refuse, Run
from tests.gcp.objects import Objects
from tests.gcp.operations import Operation
from tests.gcp.routing import Call, NotYetError, Reply, find
from tests.gcp.tokens import ACCOUNT, TOKEN, Tokens
from tests.gcp.wire import Listener

# The first that answers a path is taken.
APIS = [
    container.ROUTES, node_pools.ROUTES, compute.ROUTES, places.ROUTES, resource_policies.ROUTES, folders.ROUTES,
    storage.ROUTES, projects.ROUTES, services.ROUTES, quotas.ROUTES, artifacts.ROUTES, builds.ROUTES, billing.ROUTES,
    projects.IAM,
]  # fmt: skip
ALL_SERVICES = (
    "artifactregistry", "cloudbuild", "cloudquotas", "cloudresourcemanager", "compute", "container", "iam",
    "serviceusage", "storage",
)  # fmt: skip
# What Google fills in, differently each time.
VOLATILE = {
    "id", "etag", "fingerprint", "labelFingerprint", "createTime", "creationTimestamp", "updateTime", "expireTime",
    "timeCreated", "updated", "metageneration", "generation", "endpoint", "masterAuth", "uid", "selfLinkWithId",
    "privateClusterConfig", "requestId",
}  # fmt: skip
# An endpoint per API may be had as http://127.0.0.1:PORT/container and so on, as Private Service Connect has hosts.
_SERVICE = re.compile(
    r"/(compute(?=/compute/)|storage(?=/storage/|/upload/|/download/)|(?:artifactregistry|cloud\w+|container|serviceusage)(?=/v))"
)
PATIENCE = 30.0
"""Seconds that a test waits for a call."""
LONGEST_WAIT = 120.0
"""Seconds after which Compute Engine answers a wait although the operation is not done."""


class Logged(NamedTuple):
    method: str
    path: str
    mutating: bool


class Google:
    """
    delays: seconds that an operation takes, by kind ("cluster", "node pool", "network", "subnet", "firewall",
    "bucket", "services", "repository", "build"), also "delete cluster", "update cluster" and so on; 0 where not named.
    permissions: what the caller may do; None for everything.
    resources: name relative to the API ("projects/p/global/networks/n") to JSON: may be read and written.
    quotas: overrides machines.QUOTAS ("CPUS") and the TPU chips ("CT6E", "CT6E spot"); by region as "us-east5 CPUS".
    clock: seconds; may be replaced by a test's own.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._answered = threading.Condition(self.lock)
        self.clock: Callable[[], float] = time.monotonic
        self.delays: dict[str, float] = {}
        self.quotas: dict[str, float] = {}
        self.permissions: set[str] | None = None
        self.faults = Faults()
        self.calls: list[Logged] = []
        self.resources: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, Operation] = {}
        self.projects: dict[str, str] = {}
        self.workload_pools: set[str] = set()
        self.tokens = Tokens(self)
        self.objects = Objects()
        self.stopping = threading.Event()
        self._listener = Listener(self.answer)
        self.kubernetes = kubernetes.Kubernetes(self)
        self.endpoint = self._listener.url

    def start(self) -> Google:
        self._listener.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._listener.stop()
        self.kubernetes.stop()

    def add_project(self, project: str, *, number: str = "", services: tuple[str, ...] = ALL_SERVICES) -> str:
        """A project with a default network and these APIs. Returns its number."""
        self.projects[project] = number or str(420000000000 + len(self.projects) + 1)
        for service in services:
            self.resources[f"projects/{project}/services/{service}.googleapis.com"] = {"state": "ENABLED"}
        compute.add_default_network(self, project)
        return self.projects[project]

    def add_reservation(
        self, project: str, zone: str, name: str, machine_type: str, count: int, in_use: int = 0
    ) -> None:
        """Machines that are kept for the project, and may be shared with others."""
        self.resources[f"projects/{project}/zones/{zone}/reservations/{name}"] = {
            "name": name, "zone": zone, "status": "READY", "specificReservationRequired": True,
            "specificReservation": {
                "count": str(count), "inUseCount": str(in_use), "instanceProperties": {"machineType": machine_type},
            },
        }  # fmt: skip

    def add_foreign_bucket(self, name: str) -> None:
        """A bucket of a project that the caller has nothing to do with."""
        storage.add_foreign_bucket(self, name)

    def state(self) -> dict[str, dict[str, Any]]:
        """Everything that is there, by name, without what differs from one making to the next."""
        with self.lock:
            self.settle()
            state = {name: _lasting(resource) for name, resource in self.resources.items()}
            return dict(sorted((state | self.objects.state()).items()))

    @property
    def defects(self) -> list[BaseException]:
        """What went wrong in the server itself: always empty, or a test means nothing."""
        return [*self._listener.defects, *self.kubernetes.defects]

    @property
    def mutating_calls(self) -> list[Logged]:
        return [call for call in self.calls if call.mutating]

    def project_id(self, text: str) -> str:
        """The id of a project that is given by id or number; the text itself where there is none."""
        return next((project for project, number in self.projects.items() if text in (project, number)), text)

    def begin(self, operation: Operation, kind: str) -> Operation:
        """Keeps the operation; it is done when the delay of its kind is over."""
        operation.deadline = self.clock() + self.delays.get(kind, 0)
        self.operations[operation.name] = operation
        return operation

    def running(self, api: str, target: str = "") -> list[Operation]:
        """That API's operations under way, of one target where given."""
        return [
            operation
            for operation in self.operations.values()
            if not operation.done and operation.api == api and target in ("", operation.facts.get("target"))
        ]

    def settle(self) -> None:
        """Ends the operations whose time has come, in the order of their deadlines."""
        due = [one for one in self.operations.values() if not one.done and one.deadline <= self.clock()]
        for operation in sorted(due, key=lambda one: (one.deadline, one.number)):
            operation.settle()

    def await_call(self, method: str, path: str) -> None:
        """Comes back when a call with that end of its path has been answered."""
        with self._answered:
            came = self._answered.wait_for(
                lambda: any(call.method == method and call.path.endswith(path) for call in self.calls), PATIENCE
            )
        assert came, f"no {method} of {path} in {PATIENCE} s"

    def finish_all(self) -> None:
        """Ends every operation at once, however long it should have taken."""
        with self.lock:
            for operation in self.operations.values():
                operation.deadline = min(operation.deadline, self.clock())
            self.settle()

    def quota(self, name: str, default: float, region: str = "") -> float:
        return self.quotas.get(f"{region} {name}", self.quotas.get(name, default))

    def answer(self, call: Call) -> tuple[Reply, bool]:
        """The reply, and whether the connection is to be cut in the middle of it."""
        call.google = self
        if call.path == "/token":
            return self._guarded(lambda: Reply(self.tokens.grant(call))), False
        service = _SERVICE.match(call.path)
        if service:
            call.path, call.target = call.path[service.end() :], call.target[service.end() :]
        found = find(
            [api for api in APIS if not service or api.service.startswith(f"{service[1]}.")], call.method, call.path
        )
        mutating = found is not None and found[1].mutating
        return self.with_faults(call, mutating, lambda: self._apply(call, found))

    def with_faults(self, call: Call, mutating: bool, apply: Callable[[], Reply]) -> tuple[Reply, bool]:
        """Logs the call, applies it, and does what the faults ask for."""
        with self.lock:
            self.calls.append(Logged(call.method, call.path, mutating))
        try:
            return self._reply(call, mutating, apply)
        finally:
            with self._answered:
                self._answered.notify_all()

    def _reply(self, call: Call, mutating: bool, apply: Callable[[], Reply]) -> tuple[Reply, bool]:
        fault = self.faults.of(call.method, call.path, mutating)
        if isinstance(fault, Refuse):
            return _error(fault.error), False
        if isinstance(fault, Fail):
            call.fail_with = fault.error
        if isinstance(fault, Run) and fault.before:
            fault.action()
            if not fault.apply:
                return _error(GoogleError("CANCELLED", "The caller is gone.")), True
        return _reply_with(fault, self._guarded(apply), self.stopping)

    def _guarded(self, apply: Callable[[], Reply]) -> Reply:
        """The reply, or the refusal. Waits outside of the lock where the route asks for it."""
        until = self.clock() + LONGEST_WAIT
        while True:
            try:
                with self.lock:
                    self.settle()
                    reply = apply()
                    # Under the lock: the state may change while the reply is sent.
                    return Reply(reply.as_bytes(), reply.code, reply.headers)
            except GoogleError as error:
                return _error(error)
            except NotYetError as later:
                self.stopping.wait(max(0.0, min(later.at, until) - self.clock()))

    def _apply(self, call: Call, found: Any) -> Reply:
        call.account = self.tokens.caller(call)
        if found is None:
            raise GoogleError("UNIMPLEMENTED", f"The stand-in has no {call.method} {call.path}.")
        api, route, call.parts = found
        if "project" in call.parts:
            if call.project not in self.projects:
                raise unknown_project(api.service, call.project)
            self._check_enabled(api.service, api.title, call.project)
            self.check(call, route.permission, api.service, f"projects/{call.project}")
        reply = route.answer(call)
        return reply if isinstance(reply, Reply) else Reply(reply)

    def _check_enabled(self, service: str, title: str, project: str) -> None:
        if service in ("serviceusage.googleapis.com", "storage.googleapis.com"):
            return
        if f"projects/{project}/services/{service}" not in self.resources:
            raise service_disabled(service, title, project, self.projects[project])

    def check(self, call: Call, permission: str, service: str, resource: str) -> None:
        """Refuses the call where the caller has not got that permission."""
        if permission and self.permissions is not None and permission not in self.permissions:
            raise permission_denied(permission, resource, service)

    def credentials(self) -> Credentials:
        """Credentials that are accepted, without the exchange of tokens that a key file brings."""
        return Credentials(TOKEN, account=ACCOUNT)


def _error(error: GoogleError) -> Reply:
    return Reply(error.as_json(), HTTPStatus(error.code) if error.code != 499 else 499)


def _reply_with(fault: Fault | None, reply: Reply, stopping: threading.Event) -> tuple[Reply, bool]:
    match fault:
        case Answer(error):
            return _error(error), False
        case Delay(seconds):
            stopping.wait(seconds)
        case Cut():
            return reply, True
        case Run(action, before=False):
            action()
    return reply, False


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(one) for key, one in value.items() if key not in VOLATILE}
    return [_lasting(one) for one in value] if isinstance(value, list) else copy.deepcopy(value)
