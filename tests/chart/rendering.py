"""Renders the chart with the real Helm, for the tests beside this file."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "maxtext-multislice"
PROFILES = sorted((REPOSITORY / "values").glob("*.yaml"))

Manifest = dict[str, Any]


class HelmError(Exception):
    """Helm refused; the message is what it told the user."""


@dataclass(frozen=True)
class Release:
    """The objects of one rendering, by kind; where a release has several, the lesser ones as `KIND COMPONENT`."""

    objects: dict[str, Manifest]

    def __getitem__(self, kind: str) -> Manifest:
        return self.objects[kind]

    def name(self, kind: str) -> str:
        name: str = self.objects[kind]["metadata"]["name"]
        return name

    @property
    def run_file(self) -> str:
        text: str = self.objects["ConfigMap"]["data"]["run.yaml"]
        return text

    @property
    def run(self) -> dict[str, Any]:
        return dict(yaml.safe_load(self.run_file))

    @property
    def cluster(self) -> Manifest:
        """The Ray cluster's spec, of whichever object it is in."""
        if "RayCluster" in self.objects:
            return dict(self.objects["RayCluster"]["spec"])
        return dict(self.objects["RayJob"]["spec"]["rayClusterSpec"])

    @property
    def head(self) -> Manifest:
        return dict(self.cluster["headGroupSpec"]["template"]["spec"])

    @property
    def workers(self) -> Manifest:
        group: Manifest = self.cluster["workerGroupSpecs"][0]
        return group

    @property
    def worker(self) -> Manifest:
        return dict(self.workers["template"]["spec"])


def template(
    *files: Path,
    values: Manifest | None = None,
    sets: Sequence[str] = (),
    name: str = "demo",
    chart: Path = CHART,
    options: Sequence[str] = (),
) -> Release:
    """`helm template NAME CHART -f FILES...`, then `values` as one more file, then `--set`.

    Raises:
        HelmError: with Helm's message.
    """
    command = ["template", name, str(chart), *options]
    for file in files:
        command += ["--values", str(file)]
    if values is not None:
        command += ["--values", "-"]
    for assignment in sets:
        command += ["--set", assignment]
    documents = yaml.safe_load_all(helm(*command, stdin=json.dumps(values or {})))
    return Release({_key(document): document for document in documents if document})


def _key(document: Manifest) -> str:
    component = document["metadata"]["labels"].get("app.kubernetes.io/component", "trainer")
    return str(document["kind"]) if component == "trainer" else f"{document['kind']} {component}"


def notes(*arguments: str, name: str = "demo") -> str:
    """What `helm install` prints at the end. Helm 3 asks a cluster for it, so this is the fetched Helm 4."""
    text = helm("install", name, str(CHART), "--dry-run=client", *arguments, program=fetched("helm"))
    return text.split("\nNOTES:\n", 1)[1]


def helm(*arguments: str, stdin: str = "", program: str | None = None) -> str:
    """Standard output of a Helm command.

    Raises:
        HelmError: it failed.
    """
    result = subprocess.run(
        [program or tool("helm"), *arguments], input=stdin, capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    if result.returncode:
        # Helm says on standard error that it follows the links to trainer/ and values/.
        lines = [line for line in result.stderr.splitlines() if "found symbolic link in path" not in line]
        raise HelmError("\n".join(lines))
    return result.stdout


def tool(name: str) -> str:
    """Path of a program (or folder) that the tests need: $HELM and the like, Helm on the PATH, else fetched once."""
    chosen = os.environ.get(re.sub(r"\W", "_", name).upper())
    if chosen:
        return chosen
    if name == "helm" and (found := shutil.which("helm")):
        return found
    return fetched(name)


def fetched(name: str) -> str:
    fetch = [sys.executable, str(REPOSITORY / "scripts" / "fetch-tools"), name]
    result = subprocess.run(fetch, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr)
    return result.stdout.strip()
