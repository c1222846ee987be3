"""Renders the chart with Helm, and reads the run out of what it rendered. Helm's complaints become one DriverError."""

import difflib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from driver import resources
from driver.errors import USAGE, DriverError
from driver.values import Values

MINIMUM_HELM = (3, 16)


@dataclass(frozen=True)
class Rendering:
    """The chart's manifests for one release, in Helm's order."""

    manifests: tuple[Mapping[str, Any], ...]

    def one(self, kind: str) -> Mapping[str, Any]:
        """The manifest of a kind of which the chart has at most one. Raises a KeyError when there is none."""
        for manifest in self.manifests:
            if manifest["kind"] == kind:
                return manifest
        raise KeyError(kind)

    @property
    def trainer_files(self) -> dict[str, str]:
        """The trainer's ConfigMap: file name to content, `run.yaml` among them."""
        for manifest in self.manifests:
            if manifest["kind"] == "ConfigMap" and "run.yaml" in manifest["data"]:
                return dict(manifest["data"])
        raise KeyError("run.yaml")

    @property
    def run(self) -> dict[str, Any]:
        """run.yaml, parsed."""
        return dict(yaml.safe_load(self.trainer_files["run.yaml"]))

    @property
    def job(self) -> Mapping[str, Any]:
        """The RayJob's spec. Raises a DriverError where the values switch the job off."""
        try:
            return dict(self.one("RayJob")["spec"])
        except KeyError:
            raise DriverError(
                "job.enabled is false, so there is nothing to run.", fix="--set job.enabled=true", exit_code=USAGE
            ) from None

    @property
    def worker_pod(self) -> Mapping[str, Any]:
        """The pod spec of a TPU host."""
        own = self.job.get("rayClusterSpec")
        cluster = own if own else self.one("RayCluster")["spec"]
        return dict(cluster["workerGroupSpecs"][0]["template"]["spec"])


def render(values: Values, release: str, namespace: str = "default") -> Rendering:
    """What `helm template` makes of the chart with these values; nothing of a cluster is asked.

    Raises a DriverError with what is wrong: a file that is not YAML, a key the chart does not know, a value of
    the wrong kind, or values that the chart refuses together.
    """
    command = [find_helm(), "template", release, str(resources.chart_dir()), *values.helm_arguments()]
    command.append(f"--namespace={namespace}")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise explain(result.stderr)
    return Rendering(tuple(document for document in yaml.safe_load_all(result.stdout) if document))


def find_helm() -> str:
    """Helm on the PATH, if it is new enough, else the one that scripts/fetch-tools put into the user's cache."""
    found = shutil.which("helm")
    if found and _helm_version(found) >= MINIMUM_HELM:
        return found
    fetched = resources.cache_dir() / "bin" / "helm"
    if fetched.exists():
        return str(fetched)
    version = ".".join(map(str, MINIMUM_HELM))
    raise DriverError(
        f"{found} is {_version_words(found)}." if found else "There is no helm on the PATH.",
        rule=f"The chart is rendered with Helm {version} or newer.",
        fix="install it (https://helm.sh/docs/intro/install), or in a checkout: scripts/fetch-tools helm",
    )


def explain(stderr: str) -> DriverError:
    """Helm's standard error as one message for a user of the chart."""
    text = "\n".join(line for line in stderr.splitlines() if not line.startswith(("level=", "Use --debug"))).strip()
    text = re.sub(r"^Error: (INSTALLATION FAILED: |UPGRADE FAILED: )?", "", text)
    if "meet the specifications of the schema" in text:
        lines = [line.strip().removeprefix("- ") for line in text.splitlines() if line.strip().startswith("- ")]
        problems = [_schema_problem(line) for line in lines if not line.endswith("failed")]  # their parts follow
        return DriverError(_numbered(problems), exit_code=USAGE)
    # What the chart refuses by itself it explains by itself; the position in the template helps no one.
    refused = re.search(r"execution error at \([^)]*\):\s*(.*)", text, re.DOTALL)
    if refused:
        return DriverError(refused.group(1).strip(), exit_code=USAGE)
    unparsed = re.match(r"failed to parse (.*?): (.*)", text, re.DOTALL)
    if unparsed:
        path, reason = unparsed.groups()
        line = re.search(r"yaml: (.*)", reason)
        said = line.group(1) if line else "it is not a mapping of keys to values"
        fix = "indent with spaces: YAML takes no tabs" if "cannot start any token" in said else ""
        return DriverError(f"{path} is not a values file: {said}.", fix=fix, exit_code=USAGE)
    unread = re.match(r"failed parsing (--set\S*) data: (.*)", text, re.DOTALL)
    if unread:
        return DriverError(
            f"{unread.group(1)}: {unread.group(2)}.", rule="It is KEY=VALUE, as in tpu.slices=2.", exit_code=USAGE
        )
    return DriverError(f"Helm could not render the chart: {text}")


def _numbered(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    lines = [f"  {number}. {problem}" for number, problem in enumerate(problems, 1)]
    return "\n".join([f"{len(problems)} values do not fit the chart:", *lines])


def _schema_problem(line: str) -> str:
    """One violation in Helm's words, `at '/tpu': additional properties 'x' not allowed`, before 3.18
    `tpu: Additional property x is not allowed`."""
    place, _, said = line.partition(": ")
    path = place.removeprefix("at ").strip("'").replace("/", ".").strip(".")
    path = "" if path == "(root)" else path
    unknown = re.match(r"[Aa]dditional propert(?:y|ies) (.*?) (?:is |are )?not allowed", said)
    if unknown:
        keys = [key.strip("' ") for key in unknown.group(1).split(",")]
        return " ".join(_unknown_key(path, key) for key in keys)
    kind = re.match(r"got (\S+), want (.*)", said)
    if kind:
        return f"{path} is of type {kind.group(1)}, and must be of type {kind.group(2)}."
    least = re.match(r"(minimum|maximum): got (\S+), want (\S+)", said)
    if least:
        return f"{path} is {least.group(2)}; the {least.group(1)} is {least.group(3)}."
    return f"{path or 'The values'}: {said}."


def _unknown_key(path: str, key: str) -> str:
    known = _keys_below(path)
    full = f"{path}.{key}" if path else key
    near = difflib.get_close_matches(key, known, n=1)
    if near:
        return f"The chart has no value {full}. Did you mean {f'{path}.' if path else ''}{near[0]}?"
    return f"The chart has no value {full}. {path or 'At the top'} has {', '.join(known)}."


def schema_of(path: str) -> dict[str, Any]:
    """What the chart's schema says of a value, such as job.steps; empty where it knows none. The top for no path."""
    schema = json.loads((resources.chart_dir() / "values.schema.json").read_text())
    node = schema
    for key in filter(None, path.split(".")):
        node = node.get("properties", {}).get(key, {})
        while "$ref" in node:
            node = _at(schema, node["$ref"])
    return dict(node)


def _keys_below(path: str) -> list[str]:
    return sorted(schema_of(path).get("properties", {}))


def _at(schema: dict[str, Any], reference: str) -> dict[str, Any]:
    for part in reference.removeprefix("#/").split("/"):
        schema = schema[part]
    return schema


def _helm_version(helm: str) -> tuple[int, int]:
    said = subprocess.run([helm, "version", "--template", "{{.Version}}"], capture_output=True, text=True, check=False)
    version = re.match(r"v(\d+)\.(\d+)", said.stdout)
    return (int(version.group(1)), int(version.group(2))) if version else (0, 0)


def _version_words(helm: str) -> str:
    major, minor = _helm_version(helm)
    return f"Helm {major}.{minor}" if (major, minor) > (0, 0) else "no Helm: `helm version` tells no version"
