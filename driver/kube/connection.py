"""The connection to a cluster's Kubernetes API, as kubectl and Helm find it: $KUBECONFIG, a context, its namespace.

What goes wrong with the API is translated here and nowhere else: `explained`.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import new_client_from_config
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from driver.errors import USAGE, DriverError

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0

_PLUGIN_HINTS = {
    "gke-gcloud-auth-plugin": "gcloud components install gke-gcloud-auth-plugin, "
    "or apt-get install google-cloud-cli-gke-gcloud-auth-plugin",
}
# https://github.com/kubernetes/apiserver/blob/master/pkg/endpoints/handlers/responsewriters/errors.go
_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)


class UnreachableError(DriverError):
    """The API did not answer, answered that it cannot now (429, 5xx), or the connection broke: what became of the call
    is not known, and it may be tried again."""


class ForbiddenError(DriverError):
    """The right to do it is missing."""


class NotFoundError(DriverError):
    """The object, its namespace or its kind is not there."""


@dataclass(frozen=True)
class Connection:
    """One cluster, and the namespace in it that is worked in.

    kubeconfig: the file that the user named; None for $KUBECONFIG (which may be several) or ~/.kube/config.
    """

    api: client.ApiClient
    namespace: str
    context: str
    kubeconfig: Path | None = None

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = "application/json",
    ) -> Any:
        """The answer to one call of the API, as JSON. path: such as /api/v1/namespaces/team/pods.

        Raises ApiException and urllib3's errors: put it inside `explained`.
        """
        response = self.send(method, path, query, body, accept)
        data = response.read()
        if not 200 <= response.status <= 299:
            raise ApiException.from_response(http_resp=response, body=data.decode(errors="replace"), data=None)
        return json.loads(data)

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        accept: str = "application/json",
        read_seconds: float = READ_SECONDS,
    ) -> Any:
        """The client's response to one call, whatever its status, not read yet. read_seconds: the longest silence."""
        parameters = self.api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": accept, "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        return self.api.call_api(*parameters, _request_timeout=(CONNECT_SECONDS, read_seconds))


def connect(kubeconfig: str = "", context: str = "", namespace: str = "") -> Connection:
    """The cluster of the context (by default the current one). Nothing is asked of it yet.

    Raises a DriverError: there is no kubeconfig, it is none, it has no such context, or the program that it names for
    the credentials is missing or fails.
    """
    files = _files(kubeconfig)
    content = _read(files)
    chosen = _context(content, context, files)
    entry = _entry(content, "contexts", chosen).get("context") or {}
    where = namespace or entry.get("namespace") or "default"
    if len(where) > 63 or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", where):
        raise DriverError(
            f"{where!r} cannot be a namespace.",
            rule="It has lower-case letters, digits and dashes, and at most 63 of them.",
            fix="-n NAMESPACE",
            exit_code=USAGE,
        )
    user = _entry(content, "users", str(entry.get("user", ""))).get("user") or {}
    _check_plugin(user.get("exec"))
    api = _load(files, chosen)
    return Connection(api, where, chosen, Path(kubeconfig).absolute() if kubeconfig else None)


def contexts(kubeconfig: str = "") -> list[str]:
    """The names of the contexts that `connect` would take."""
    return list(_read(_files(kubeconfig))["contexts"])


@contextmanager
def explained(doing: str, verb: str = "", resource: str = "") -> Iterator[None]:
    """Turns what goes wrong with the Kubernetes API into a DriverError.

    doing: "reading the pods of demo". verb and resource: what RBAC calls the right ("list", "pods"), for where the
    API's own message does not say.
    Raises UnreachableError, ForbiddenError, NotFoundError, and a DriverError for all else.
    """
    try:
        yield
    except ApiException as error:
        raise _translated(error, doing, verb, resource) from None
    except (HTTPError, OSError) as error:
        raise not_reached(doing, _reason(error)) from None


def not_reached(doing: str, reason: str) -> UnreachableError:
    """The API did not answer."""
    return UnreachableError(
        f"{doing}: the cluster's Kubernetes API cannot be reached: {reason}.",
        rule="The context's server must be open to this machine; a private endpoint, or one with authorized networks, "
        "is not.",
        fix="kubectl cluster-info tells the same; --context NAME chooses another cluster",
    )


def forbidden(doing: str, said: str, verb: str = "", resource: str = "") -> ForbiddenError:
    """The right is missing. said: the API's message, which names user, verb, resource and namespace."""
    found = _FORBIDDEN.search(said)
    if found:
        group = f".{found['group']}" if found["group"] else ""
        where = f" in namespace {found['namespace']}" if found["namespace"] else " in the whole cluster"
        right, whose = f"{found['verb']} {found['resource']}{group}{where}", f" to {found['user']}"
        cluster_wide = not found["namespace"]
    else:
        right, whose, cluster_wide = f"{verb} {resource}".strip() or said, "", False
    kind = "ClusterRole and ClusterRoleBinding" if cluster_wide else "Role and RoleBinding"
    to_look = (found["verb"] if found else verb) in ("get", "list", "watch") and not cluster_wide
    return ForbiddenError(
        f"{doing}: the right to {right} is missing.",
        rule="The chart's Role lets those in operators.subjects look at runs; to install, stop and remove one takes "
        "what Helm needs: the right to change the chart's kinds, and secrets.",
        fix=f"have it granted{whose} by a {kind}, or roles/container.developer"
        + ("; to look at runs: --set operators.subjects.NAME=User (or Group, ServiceAccount)" if to_look else ""),
    )


def _translated(error: ApiException, doing: str, verb: str, resource: str) -> DriverError:
    said = message_of(error)
    match error.status:
        case 401:
            return DriverError(
                f"{doing}: the cluster's Kubernetes API does not know the credentials of this context (401).",
                rule="They have expired, or belong to another cluster.",
                fix="gcloud auth login, or whatever the kubeconfig's user needs; kubectl auth whoami tells who you are",
            )
        case 403:
            return forbidden(doing, said, verb, resource)
        case 404:
            return NotFoundError(f"{doing}: {said}.")
        case 0:
            return not_reached(doing, said)  # TLS
        case status if status == 429 or status >= 500:
            return UnreachableError(
                f"{doing}: the cluster's Kubernetes API answered {status}: {said}.",
                rule="It is overloaded, being upgraded, or broken.",
                fix="try again in a minute",
            )
        case status:
            return DriverError(f"{doing}: the cluster's Kubernetes API answered {status}: {said}.")


def message_of(error: ApiException) -> str:
    """What the API said, in its own words."""
    try:
        said = json.loads(error.body or "")["message"]
    except (ValueError, KeyError, TypeError):
        said = error.body or error.reason
    return re.sub(r"\s+", " ", str(said)).strip().rstrip(".")


def _reason(error: BaseException) -> str:
    cause = getattr(error, "reason", None) or error
    text = re.sub(r"^.*?Connection(?:Pool)?\([^)]*\):? ?", "", str(cause))
    return (re.sub(r"\s+", " ", text).strip() or type(cause).__name__).rstrip(".")


def _files(given: str) -> list[Path]:
    if given:
        if not Path(given).is_file():
            raise DriverError(f"There is no kubeconfig {given}.", fix="--kubeconfig FILE", exit_code=USAGE)
        return [Path(given)]
    listed = [Path(one).expanduser() for one in os.environ.get("KUBECONFIG", "").split(os.pathsep) if one]
    wanted = listed or [Path.home() / ".kube" / "config"]
    there = [one for one in wanted if one.is_file()]
    if there:
        return there
    raise DriverError(
        f"There is no kubeconfig: {', '.join(map(str, wanted))} {'are no files' if len(wanted) > 1 else 'is no file'}.",
        rule="It names the cluster and the credentials, as for kubectl.",
        fix="driver bootstrap writes it; so does gcloud container clusters get-credentials CLUSTER --location=WHERE",
    )


def _read(files: Sequence[Path]) -> Mapping[str, Any]:
    """The files' contexts and users as plain data, merged as kubectl does: the first entry of a name stays."""
    merged: dict[str, Any] = {"contexts": {}, "users": {}, "current-context": ""}
    for file in files:
        try:
            content = yaml.safe_load(file.read_text()) or {}
            if not isinstance(content, dict):
                raise TypeError("it is no mapping of keys to values")
            for section in ("contexts", "users"):
                for entry in content.get(section) or []:
                    merged[section].setdefault(entry["name"], entry)
            merged["current-context"] = merged["current-context"] or content.get("current-context") or ""
        except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
            raise _no_kubeconfig(file, error) from None
    return merged


def _no_kubeconfig(file: Path, error: Exception) -> DriverError:
    said = error.strerror if isinstance(error, OSError) else re.sub(r"\s+", " ", str(error))
    return DriverError(
        f"{file} is not a kubeconfig: {said}.", fix="mend it, or name another: --kubeconfig FILE", exit_code=USAGE
    )


def _context(content: Mapping[str, Any], wanted: str, files: Sequence[Path]) -> str:
    there = list(content["contexts"])
    chosen = str(wanted or content["current-context"])
    if chosen in there:
        return chosen
    where = ", ".join(map(str, files))
    known = f"It has {', '.join(there)}." if there else "It has none."
    near = difflib.get_close_matches(chosen, there, n=1) or there[:1]
    found = f"There is no context {chosen} in {where}." if chosen else f"{where} has no current context."
    raise DriverError(found, rule=known, fix=f"--context {near[0]}" if near else "", exit_code=USAGE)


def _entry(content: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    entry: Mapping[str, Any] = content[section].get(name) or {}
    return entry


def _check_plugin(plugin: Any) -> None:
    """The Python client only logs that it could not start the program, and goes on as nobody."""
    command = str(plugin.get("command", "")) if isinstance(plugin, dict) else ""
    if not command or os.sep in command or shutil.which(command):
        return
    hint = _PLUGIN_HINTS.get(command) or " ".join(str(plugin.get("installHint") or "").split())
    raise DriverError(
        f"{command} is not on the PATH.",
        rule="The kubeconfig names it as the program that gives the credentials for this cluster.",
        fix=hint or "install it",
    )


class _Said(logging.Handler):
    """Keeps what the Python client logs of a program for credentials that failed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _load(files: Sequence[Path], context: str) -> client.ApiClient:
    said = _Said()
    root = logging.getLogger()
    root.addHandler(said)
    try:
        api: client.ApiClient = new_client_from_config(os.pathsep.join(map(str, files)), context, persist_config=False)
    except (ConfigException, yaml.YAMLError, KeyError, TypeError, ValueError, OSError) as error:
        raise _no_kubeconfig(files[0], error) from None
    finally:
        root.removeHandler(said)
    if said.lines and not api.configuration.api_key and not api.configuration.cert_file:
        raise DriverError(
            f"The credentials of context {context} could not be had: {' '.join(said.lines[-1].split())}.",
            rule="The kubeconfig names a program that gives them, and it failed.",
            fix="gcloud auth login, for a GKE cluster; kubectl get pods shows the same",
        )
    return api
