"""Helm for one connection, through pyhelm3, without its traps.

pyhelm3 builds a shell string for each command and lets the caller's environment choose another cluster: here a command
is a list, and its environment that of the connection. A command that has begun is not broken off, since that leaves a
release which nobody can upgrade: Ctrl-C takes effect when Helm has ended, and none of the commands waits for pods. A
second Ctrl-C ends the driver, and Helm goes on.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Coroutine, Mapping
from typing import Any

import pyhelm3
from pyhelm3 import errors as pyhelm3_errors

from driver import chart
from driver.errors import USAGE, DriverError
from driver.kube.connection import Connection, forbidden, not_reached

TIMEOUT = "300s"
"""For Helm's calls of the API. pyhelm3 wants text."""

HISTORY = 10
"""Revisions that Helm keeps of a release, as on its command line."""

# Helm's own choice of a cluster and a namespace, which the user's environment may make for others.
_OTHERS_CLUSTER = ("HELM_KUBE", "HELM_NAMESPACE")
_UNREACHABLE = re.compile(
    r"Kubernetes cluster unreachable: (.*)|(dial tcp[: ].*)|(http2: .*)|(.*: TLS handshake timeout)"
)
_CREDENTIALS = re.compile(r"asked for the client to provide credentials|Unauthorized|must be logged in to the server")
_CERTIFICATE = re.compile(r"x509: .*")
_ANOTHER = re.compile(
    r"another operation \(install/upgrade/rollback\) is in progress|release: already exists|name that is still in use"
    r'|secrets "sh\.helm\.release\.[^"]*" already exists'
)
_OWNER = re.compile(r'"meta\.helm\.sh/release-(name|namespace)" must equal "[^"]*": current value is "([^"]+)"')
_OWNED = re.compile(r'(\w+) "([^"]+)" in namespace "([^"]*)" exists and cannot be imported into the current release')


class Command(pyhelm3.Command):
    """pyhelm3's commands, started without a shell."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(
            default_timeout=TIMEOUT,
            executable=chart.find_helm(),
            history_max_revisions=HISTORY,
        )
        self.at_work = False
        """Whether a Helm that was started has not ended, which a second Ctrl-C does not wait for."""
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS_CLUSTER)}
        self._chosen = [f"--kube-context={connection.context}"]
        if connection.kubeconfig:
            self._chosen.append(f"--kubeconfig={connection.kubeconfig}")

    async def run(self, command: list[Any], input: bytes | None = None) -> bytes:  # pyhelm3's name
        """Helm's standard output. Raises pyhelm3's errors."""
        # pyhelm3 says --dry-run alone, with which Helm does not look at the cluster: our chart asks it for the
        # slices that the autoscaler made.
        words = ["--dry-run=server" if word == "--dry-run" else str(word) for word in command]
        arguments = [self._executable, *words, *self._chosen]
        self.at_work = True
        with subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # the terminal's Ctrl-C is not for Helm
        ) as process:
            out, said = process.communicate(input)
        self.at_work = False
        if process.returncode != 0:
            kind = pyhelm3_errors.Error
            if b"release: not found" in said.lower():
                kind = pyhelm3_errors.ReleaseNotFoundError
            raise kind(process.returncode, out, said)
        return out


class Helm:
    """pyhelm3's commands, one after the other and with their errors explained."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.command = Command(connection)

    def ask[T](self, what: Coroutine[Any, Any, T], doing: str) -> T:
        """The answer. Raises a DriverError with what Helm says, and pyhelm3's ReleaseNotFoundError unchanged: what it
        means is the caller's to say."""
        try:
            return asyncio.run(what)
        except pyhelm3_errors.ReleaseNotFoundError:
            raise
        except pyhelm3_errors.Error as error:
            raise explained(error.stderr.decode(errors="replace"), doing) from None


def explained(stderr: str, doing: str) -> DriverError:
    """What Helm ended with, as one message."""
    text = "\n".join(line for line in stderr.splitlines() if "found symbolic link in path" not in line).strip()
    last = re.sub(r"^Error: ([A-Z]+ FAILED: )?", "", text.splitlines()[-1] if text else "Helm said nothing")
    if _CREDENTIALS.search(text):
        return DriverError(
            f"{doing}: the cluster's Kubernetes API does not know the credentials of this context (401).",
            rule="They have expired, or belong to another cluster.",
            fix="gcloud auth login, or whatever the kubeconfig's user needs; kubectl auth whoami tells who you are",
        )
    certificate = _CERTIFICATE.search(last)
    if certificate:
        said = certificate.group().rstrip(".")
        return DriverError(
            f"{doing}: the certificate of the cluster's Kubernetes API is not trusted: {said}.",
            rule="The kubeconfig's certificate-authority-data must be the cluster's own, and its server a name in the "
            "certificate.",
            fix="gcloud container clusters get-credentials CLUSTER --location=WHERE writes both anew; a clock that is "
            "wrong has the same effect",
        )
    unreachable = _UNREACHABLE.search(last)
    if unreachable:
        return not_reached(doing, next(part for part in unreachable.groups() if part).rstrip("."))
    if "is forbidden" in text:
        return forbidden(doing, text)
    if _ANOTHER.search(text):
        return DriverError(
            f"{doing}: another Helm is changing the release, or one was killed while it did.",
            rule="Helm changes a release once at a time.",
            fix="driver runs RELEASE tells since when; driver uninstall RELEASE, if no other Helm is at work",
        )
    owned = _OWNED.search(text)
    if owned:
        return _owned(doing, *owned.groups(), owner=dict(_OWNER.findall(text)))
    conflict = re.search(r'conflicts? with "([^"]+)"(?: with subresource "[^"]*")?(?: using [^:]+)?:?\s*(.*)', text)
    if conflict and "Apply failed" in text:
        return DriverError(
            f"{doing}: {conflict.group(1)} has changed the same fields: {conflict.group(2) or last}.",
            rule="Helm 4 does not overwrite what another program set.",
            fix="driver install --diff shows them; take the change back, or give the values what it set",
        )
    if "no matches for kind" in text or "resource mapping not found" in text:
        return DriverError(
            f"{doing}: {last}.",
            rule="The chart needs KubeRay's kinds, and those of what the values switch on.",
            fix="the Ray operator add-on, or https://ray-project.github.io/kuberay-helm",
        )
    refused = chart.explain(text)
    return refused if refused.exit_code == USAGE else DriverError(f"{doing}: Helm says: {last}.")


def _owned(doing: str, kind: str, name: str, namespace: str, *, owner: Mapping[str, str]) -> DriverError:
    """The object is there, and another's. owner: name and namespace of the other release, where it is one."""
    where = f" -n {namespace}" if namespace else ""
    rule = "Helm does not take over what others made."
    if owner:
        whose = owner.get("name", "of this name")
        if "namespace" in owner:
            whose += f" in namespace {owner['namespace']}"
        return DriverError(
            f"{doing}: {kind} {name} belongs to the release {whose}.",
            rule=rule,
            fix="another name for the objects (fullnameOverride), or for the release",
        )
    return DriverError(
        f"{doing}: {kind} {name} is there, and was not made by this release.",
        rule=rule,
        fix=f"another release name, or remove it: kubectl delete {kind.lower()} {name}{where}",
    )
