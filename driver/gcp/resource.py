"""What every kind of prerequisite can do. Order, parallelism, dry run, resuming and teardown are not its business.

A kind says what is there (`describe`), makes it (`create`), changes it where Google allows (`update`), removes it
(`delete`) and says the same to gcloud. What it needs before it stands in driver/gcp/prerequisites.py.
driver/gcp/plan.py compares and driver/gcp/apply.py carries out.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from driver.gcp.cloud import Cloud
    from driver.gcp.site import Site
    from driver.gcp.waiting import Waiting

MARK = "maxtext-multislice"
"""The label that says whose a resource is; its value is `Site.id`."""

SPEC_MARK = "maxtext-multislice-spec"
"""The label with the hash of the specification that a resource was made from."""

PROJECT_NUMBER = "PROJECT_NUMBER"
"""Stands in commands for the project's number, which only Google knows: driver/gcp/script.py puts it in."""


@dataclass(frozen=True)
class Difference:
    """A field that is not as the site file wants it. in_place: `update` can change it."""

    field: str
    found: str
    wanted: str
    in_place: bool = False


@dataclass(frozen=True)
class Found:
    """A resource that is there.

    ours: it carries this site's mark.
    differences: what is not as wanted.
    unfinished: it is still being made, changed or deleted; Google's word for that ("PROVISIONING").
    broken: Google gave up on it, and why ("ERROR: no more capacity in the zone"): it has to be made again.
    details: what others read from it (a cluster's endpoint).
    """

    ours: bool
    differences: tuple[Difference, ...] = ()
    unfinished: str = ""
    broken: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """One command line of gcloud, kubectl or bash as separate arguments, with a comment to stand above it."""

    arguments: tuple[str, ...]
    comment: str = ""

    def __str__(self) -> str:
        """Shell-quoted, one option per line."""
        words = [shlex.quote(argument) for argument in self.arguments]
        first = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
        lines = [" ".join(words[:first]), *words[first:]]
        text = " \\\n    ".join(line for line in lines if line)
        return "\n".join([*(f"# {line}" for line in self.comment.splitlines()), text])


def pairs(labels: Mapping[str, str]) -> str:
    """Labels as gcloud's options take them: a=b,c=d."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


@dataclass(frozen=True)
class Permissions:
    """The IAM permissions that each verb needs, in the project."""

    describe: tuple[str, ...] = ()
    create: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


class Resource(ABC):
    """One prerequisite of a site.

    kind: what users call it ("VPC network").
    permissions: what each verb needs.
    """

    kind: ClassVar[str]
    permissions: ClassVar[Permissions]
    shared: ClassVar[bool] = False
    """What is there is used and completed, whoever made it (the project's APIs, a namespace, a repository); only what
    carries our mark is deleted."""
    inside: ClassVar[str] = ""
    """The kind that it is in and goes with, as a node pool is in its cluster."""
    update_flag: ClassVar[str] = ""
    """The option of `driver bootstrap` without which `update` is not called, be it ours or existing; empty where it is
    called without being asked for."""

    def __init__(self, site: Site, name: str, *, existing: bool = False) -> None:
        """
        name: as Google knows it.
        existing: the user named one that is there: it is used and checked, never made or deleted, and changed only
            where the kind has an `update_flag`.
        """
        self.site = site
        self.name = name
        self.existing = existing

    @property
    def key(self) -> str:
        """Unique within a site, and readable: "VPC network multislice-net-1"."""
        return f"{self.kind} {self.name}"

    @abstractmethod
    def wanted(self) -> Mapping[str, Any]:
        """The specification, as plain data. Its hash is the spec mark."""

    @abstractmethod
    def describe(self, cloud: Cloud) -> Found | None:
        """What is there under this name; None where nothing is. Reads only."""

    @abstractmethod
    def create(self, cloud: Cloud, waiting: Waiting) -> None:
        """Makes it, marked, and returns when it is ready. Raises Google's error unchanged, or a DriverError that says
        more, and WaitStoppedError."""

    def update(self, cloud: Cloud, found: Found, waiting: Waiting) -> None:
        """Changes the differences that are `in_place`. Kinds that have none need not define it."""
        raise NotImplementedError(self.kind)

    @abstractmethod
    def delete(self, cloud: Cloud, waiting: Waiting) -> None:
        """Removes it and returns when it is gone. Gone already is no error."""

    def await_ready(self, cloud: Cloud, waiting: Waiting) -> None:
        """Waits for what another run of the driver, or another person, began. Kinds that can be `unfinished` wait on
        the operation itself where Google offers it, else on `describe`."""
        waiting.until(lambda: self._settled(cloud), f"waiting for {self.key}")

    def _settled(self, cloud: Cloud) -> bool:
        found = self.describe(cloud)
        return found is None or not found.unfinished

    @abstractmethod
    def gcloud(self) -> Sequence[Command]:
        """The commands that make it, in order."""

    @classmethod
    def marked(cls, site: Site, cloud: Cloud) -> Sequence[Resource]:
        """Everything of this kind that carries the site's mark, also what the site file no longer asks for. `wanted` of
        these is not used."""
        return ()

    @property
    def labels(self) -> dict[str, str]:
        """The marks as labels, for kinds that have labels."""
        return {MARK: self.site.id, SPEC_MARK: self.spec_hash}

    @property
    def description(self) -> str:
        """The marks as a description, for kinds that have no labels."""
        return f"Made by {MARK}. {MARK}={self.site.id} {SPEC_MARK}={self.spec_hash}"

    @property
    def spec_hash(self) -> str:
        """12 hexadecimal digits of the specification."""
        return hashlib.sha256(json.dumps(self.wanted(), sort_keys=True, default=str).encode()).hexdigest()[:12]

    def is_ours(self, labels_or_description: Mapping[str, str] | str) -> bool:
        """Whether labels, or a description, carry the mark of this very site."""
        return marks(labels_or_description).get(MARK) == self.site.id


def marks(labels_or_description: Mapping[str, str] | str) -> dict[str, str]:
    """The two marks, out of labels or out of a description; empty where there are none."""
    if isinstance(labels_or_description, str):
        found = dict(re.findall(r"([\w-]+)=([\w-]+)", labels_or_description))
    else:
        found = dict(labels_or_description)
    return {key: found[key] for key in (MARK, SPEC_MARK) if key in found}
