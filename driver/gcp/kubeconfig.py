"""The cluster's entry in the user's kubeconfig, as `gcloud container clusters get-credentials` writes it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from driver import yaml_text
from driver.errors import DriverError
from driver.gcp.kubernetes import url
from driver.gcp.resource import Command

if TYPE_CHECKING:
    from driver.gcp.site import Site

PLUGIN = "gke-gcloud-auth-plugin"

INSTALL_HINT = (
    f"Install {PLUGIN} for use with kubectl by following "
    "https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl#install_plugin"
)

INSTALL_COMMANDS = f"gcloud components install {PLUGIN}, or apt-get install google-cloud-cli-{PLUGIN}"

_SECTIONS = ("clusters", "contexts", "users")
_LOCK_SECONDS = 5.0


def name_of(site: Site) -> str:
    """Of the entry's cluster, user and context."""
    return f"gke_{site.project}_{site.location}_{site.cluster.name}"


def find() -> Path:
    """The file that kubectl and gcloud write to: the first one of $KUBECONFIG, or ~/.kube/config."""
    for given in os.environ.get("KUBECONFIG", "").split(os.pathsep):
        if given:
            return Path(given).absolute()
    return Path.home() / ".kube" / "config"


def check() -> None:
    """Raises a DriverError where `add` would refuse the file, before anything is made."""
    target = find()
    with _locked(target):
        _read(target)
        try:
            with tempfile.TemporaryFile(dir=target.resolve().parent):
                pass
        except OSError as error:
            raise _unwritable(target, error) from None


def add(site: Site, details: Mapping[str, Any], path: Path | None = None) -> Path:
    """Adds or renews the entry, makes it the current context, and keeps all else. Returns the file.

    details: of the cluster's `Found`: endpoint and ca.
    Raises a DriverError where the file is not a kubeconfig; it is then left as it was.
    """
    target = path or find()
    name = name_of(site)
    server = {"server": url(details["endpoint"])}
    if details["ca"]:
        server = {"certificate-authority-data": details["ca"], **server}
    entry: dict[str, dict[str, Any]] = {
        "clusters": {"cluster": server},
        "contexts": {"context": {"cluster": name, "user": name}},
        "users": {"user": {"exec": _plugin()}},
    }
    with _locked(target):
        content = _read(target)
        for section in _SECTIONS:
            _put(content, section, name, entry[section])
        content["current-context"] = name
        _write(target, content)
    return target


def remove(site: Site, path: Path | None = None) -> bool:
    """Takes the entry away, and nothing else. Returns whether there was one."""
    target = path or find()
    if not target.exists():
        return False
    name = name_of(site)
    with _locked(target):
        content = _read(target)
        before = {section: list(content[section]) for section in _SECTIONS}
        for section in _SECTIONS:
            content[section] = [one for one in content[section] if one.get("name") != name]
        changed = any(before[section] != content[section] for section in _SECTIONS)
        if content.get("current-context") == name:
            content["current-context"] = ""
            changed = True
        if changed:
            _write(target, content)
    return changed


def missing_plugin() -> str:
    """What to tell a user who lacks the plugin that the entry needs; empty where it is on the PATH."""
    if shutil.which(PLUGIN):
        return ""
    return f"{PLUGIN} is not on the PATH. kubectl and Helm need it for this cluster: {INSTALL_COMMANDS}. {INSTALL_HINT}"


def command(site: Site) -> Command:
    """The same with gcloud."""
    words = ("gcloud", "container", "clusters", "get-credentials", site.cluster.name)
    return Command((*words, f"--project={site.project}", f"--location={site.location}"))


def _plugin() -> dict[str, Any]:
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": PLUGIN,
        "installHint": INSTALL_HINT,
        "provideClusterInfo": True,
    }


def _put(content: dict[str, Any], section: str, name: str, entry: Mapping[str, Any]) -> None:
    """In the place of an entry of this name, or at the end. A context's namespace is the user's choice and stays."""
    entries = content[section]
    new = {**entry, "name": name}
    for place, one in enumerate(entries):
        if one.get("name") == name:
            if section == "contexts" and isinstance(one.get("context"), dict):
                new = {**new, "context": {**one["context"], **entry["context"]}}
            entries[place] = new
            return
    entries.append(new)


def _read(path: Path) -> dict[str, Any]:
    if path.exists() and not path.is_file():
        raise _not_one(path, "it is not a regular file")
    try:
        content = yaml_text.load(path.read_text()) if path.exists() else None
    except ValueError as error:
        raise _not_one(path, f"it is not YAML ({error})") from None
    except OSError as error:
        raise _not_one(path, f"it cannot be read ({error.strerror})") from None
    if content is None:
        content = {"apiVersion": "v1", "kind": "Config", "preferences": {}}
    if not isinstance(content, dict):
        raise _not_one(path, "it is not a mapping")
    for section in _SECTIONS:
        content[section] = content.get(section) or []  # kubectl writes null for an empty one
        if not isinstance(content[section], list) or not all(isinstance(one, dict) for one in content[section]):
            raise _not_one(path, f"{section} is not a list of entries")
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """At once or not at all, readable by its owner alone. A link stays one."""
    real = path.resolve()
    try:
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")  # with mode 0600
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with os.fdopen(handle, "w") as file:
            yaml.safe_dump(content, file, default_flow_style=False)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(real)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """kubectl's own lock: a file beside the kubeconfig that exists for as long as it is written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None
    lock = path.with_name(f"{path.name}.lock")
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            if time.monotonic() > give_up:
                raise DriverError(
                    f"{path} is locked: {lock} exists.",
                    rule="kubectl makes this file while it writes the kubeconfig, and leaves it when it is killed.",
                    fix=f"rm {lock}, if no kubectl is writing, and run the command again",
                ) from None
            time.sleep(0.1)
        except OSError as error:
            raise _unwritable(path, error) from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> DriverError:
    return DriverError(
        f"{path} cannot be written: {error.strerror}.",
        rule="The cluster's entry is added to it.",
        fix="name another file: KUBECONFIG=FILE",
    )


def _not_one(path: Path, why: str) -> DriverError:
    return DriverError(
        f"{path} is not a kubeconfig: {why}.",
        rule="The cluster's entry is added to it, and what it has must not be lost.",
        fix="mend it, or name another file: KUBECONFIG=FILE",
    )
