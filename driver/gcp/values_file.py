"""The site's values file for the chart (SITE.values.yaml beside site.yaml): what the Google Cloud side decides."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from driver import yaml_text
from driver.errors import USAGE, DriverError
from driver.gcp import dranet

if TYPE_CHECKING:
    from driver.gcp.site import Site

_MADE_BY = "# Made by `driver bootstrap`"

# As gcsfuse's guide to training recommends for flat buckets; a checkpoint's folder has some thousands of files.
_RENAME_DIR_LIMIT = 200000


def path_beside(site_file: Path) -> Path:
    """site.yaml -> site.values.yaml, beside it."""
    return site_file.with_name(f"{site_file.stem}.values.yaml")


def check(path: Path) -> None:
    """Raises a DriverError where `write` would refuse, before anything is made."""
    text = _ours(path)
    if text is not None:
        _values_of(path, text)
    try:
        with tempfile.TemporaryFile(dir=path.resolve().parent):
            pass
    except OSError as error:
        raise _unwritable(path, error) from None


def write(site: Site, path: Path, *, hierarchical_namespace: bool | None = None) -> bool:
    """Writes the file, if it is not so already; returns whether it had to. An image's address that it has stays.

    hierarchical_namespace: of the bucket that is there, which need not be as the site file says; None where it is.
    Raises a DriverError where the file was made by someone else.
    """
    before = _ours(path)
    hierarchical = site.bucket.hierarchical_namespace if hierarchical_namespace is None else hierarchical_namespace
    content = values(site, hierarchical_namespace=hierarchical)
    uri = _uri(_values_of(path, before)) if before else ""
    if uri:
        content["image"] = {"uri": uri}
    return _replace(path, before, _text(site, path, content))


def set_image(path: Path, uri: str) -> bool:
    """The same file with another image; returns whether that changed it. An image may be built before the site: the
    file then has the image alone, and `write` adds the rest.

    Raises a DriverError where the file was made by someone else.
    """
    before = _ours(path)
    if before is None:
        header, content = f"{_MADE_BY} and `driver image`. `driver bootstrap` adds what the site is.\n", {}
    else:
        lines = before.splitlines(keepends=True)
        header = "".join(itertools.takewhile(lambda line: line.startswith("#"), lines))
        content = _values_of(path, before)
    content["image"] = {"uri": uri}
    return _replace(path, before, header + _as_yaml(content))


def image_of(path: Path) -> str:
    """The image's address that the file has; empty where there is none.

    Raises a DriverError where the file was made by someone else.
    """
    text = _ours(path)
    return str(_uri(_values_of(path, text))) if text else ""


def values(site: Site, *, hierarchical_namespace: bool) -> dict[str, Any]:
    """What the chart has to know of the site."""
    tpu = site.tpu
    slices: dict[str, Any] = {"type": tpu.type, "topology": tpu.topology, "slices": tpu.slices}
    if tpu.chips_per_host is not None:
        slices["chipsPerHost"] = tpu.chips_per_host
    slices["capacity"] = tpu.capacity
    if tpu.reservation:
        slices["reservation"] = tpu.reservation
    content: dict[str, Any] = {"tpu": slices}
    if site.cluster.mode == "autopilot":
        content["computeClass"] = _compute_class(site)
        # Autopilot admits no privileged containers.
        content["worker"] = {"securityContext": {"privileged": False}}
    storage: dict[str, Any] = {"bucket": site.bucket.name}
    if not hierarchical_namespace:
        storage["mountOptions"] = {"rename-dir-limit": _RENAME_DIR_LIMIT}
    content["storage"] = storage
    content["network"] = {"dranet": _dranet(site)}
    content["serviceAccount"] = {"name": site.service_account}
    if site.service_account == "default":
        # Kubernetes makes that one in every namespace, and Helm refuses to make it again.
        content["serviceAccount"] = {"create": False, "name": "default"}
    return content


def _compute_class(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = {"enabled": True, "zones": [site.zone]}
    if site.tpu.reservation_project not in ("", site.project):
        found["reservationProject"] = site.tpu.reservation_project
    if site.tpu.max_run_duration_seconds:
        found["maxRunDurationSeconds"] = site.tpu.max_run_duration_seconds
    return found


def _dranet(site: Site) -> dict[str, Any]:
    if not dranet.supported(site):
        return {"enabled": False}
    if not dranet.own_networks(site):
        # GKE decides how many networks the machine type gets.
        return {"enabled": True, "allocationMode": "All"}
    count = len(site.network.existing) or len(site.network.ranges)
    return {"enabled": True, "allocationMode": "ExactCount", "count": count}


def _text(site: Site, path: Path, content: dict[str, Any]) -> str:
    header = f"""\
{_MADE_BY} from the site file, and made again by it: changes here are lost.
# What the chart has to know of cluster {site.cluster.name} in project {site.project}.
# It comes after a profile, and before what a team sets:
#   helm install llama charts/maxtext-multislice -f values/llama3-70b.yaml -f {path.name} -n {site.namespace}
"""
    if not dranet.supported(site):
        header += f"# {site.slice.machine_type} has no DRANET: slices talk over the cluster's own network.\n"
    return header + _as_yaml(content)


def _as_yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=False)


def _ours(path: Path) -> str | None:
    """The file's text; None where there is no file."""
    if path.exists() and not path.is_file():
        raise DriverError(f"{path} is not a regular file.", rule="It would be replaced by one.", exit_code=USAGE)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise DriverError(f"{path} cannot be read: {said}.", exit_code=USAGE) from None
    if not text.startswith(_MADE_BY):
        raise DriverError(
            f"{path} exists and was not made by driver bootstrap.",
            rule=f"The site's values are written there. Its own begins with {_MADE_BY!r}.",
            fix=f"mv {path} {path.with_suffix('.old.yaml')}",
            exit_code=USAGE,
        )
    return text


def _values_of(path: Path, text: str) -> dict[str, Any]:
    try:
        content = yaml_text.load(text)
    except ValueError:
        content = None
    if not isinstance(content, dict) or not isinstance(_uri(content), str):
        raise DriverError(f"{path} is not a values file any more.", fix=f"rm {path}", exit_code=USAGE)
    return content


def _uri(content: dict[str, Any]) -> Any:
    image = content.get("image", {})
    return image.get("uri", "") if isinstance(image, dict) else None


def _replace(path: Path, before: str | None, text: str) -> bool:
    """At once or not at all. A link stays one."""
    if before == text:
        return False
    real = path.resolve()
    try:
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "w") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(text)
        Path(temporary).replace(real)
    except OSError as error:
        raise _unwritable(path, error) from None
    return True


def _unwritable(path: Path, error: OSError) -> DriverError:
    return DriverError(f"{path} cannot be written: {error.strerror}.", exit_code=USAGE)
