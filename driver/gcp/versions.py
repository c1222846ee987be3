"""GKE's versions, such as 1.35.2-gke.1842000: their order, and which one a wish for a version leads to.

https://cloud.google.com/kubernetes-engine/versioning
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import total_ordering
from typing import TYPE_CHECKING

from driver.errors import USAGE, DriverError

if TYPE_CHECKING:
    from google.cloud.container_v1.types import ServerConfig

_FORM = re.compile(r"(\d+)\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?")


@total_ordering
@dataclass(frozen=True)
class Version:
    """Compared number by number: 1.9 < 1.34, and 1.35.2-gke.999 < 1.35.2-gke.1842000. One that is not exact ("1.35")
    comes before all that it stands for."""

    numbers: tuple[int, ...]

    def __lt__(self, other: Version) -> bool:
        return self.numbers < other.numbers

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers[:3]))
        return f"{text}-gke.{self.numbers[3]}" if len(self.numbers) == 4 else text

    def covers(self, other: Version) -> bool:
        """Whether it stands for the other: 1.35 for 1.35.2-gke.1842000."""
        return self.numbers == other.numbers[: len(self.numbers)]


def parse(text: str) -> Version:
    """Raises a ValueError where it is none."""
    matched = _FORM.fullmatch(text)
    if not matched:
        raise ValueError(f"{text!r} is not a GKE version, such as 1.35.2-gke.1842000")
    return Version(tuple(int(number) for number in matched.groups() if number is not None))


@dataclass(frozen=True)
class Offer:
    """The versions that new clusters can have at a place. channel: empty for clusters without one."""

    channel: str
    default: Version
    valid: tuple[Version, ...] = field(default=())

    def resolve(self, wish: str, minimum: Version | None = None) -> Version:
        """The exact version for a wish: "1.35" and "1.35.2" mean the newest that they stand for, as with gcloud, and ""
        the default, or, where that is older than the minimum, the oldest that is not.

        Raises a DriverError that says what there is.
        """
        enough = [version for version in sorted(self.valid) if minimum is None or version >= minimum]
        if not wish:
            if minimum is None or self.default >= minimum:
                return self.default
            if enough:
                return enough[0]
            raise self._nothing(f"no version from {minimum} on", str(minimum))
        wanted = parse(wish)
        meant = [version for version in sorted(self.valid) if wanted.covers(version)]
        if not meant:
            raise self._nothing(f"no version {wish}", str(minimum) if minimum else "")
        if minimum is not None and meant[-1] < minimum:
            raise DriverError(
                f"cluster.version is {wish}, and the newest of that is {meant[-1]}.",
                rule=f"The network devices of the slices (DRANET) need {minimum} or newer.",
                fix=_fix(enough),
                exit_code=USAGE,
            )
        return meant[-1]

    def _nothing(self, what: str, minimum: str) -> DriverError:
        place = f"The release channel {self.channel}" if self.channel else "GKE without a release channel"
        enough = [version for version in sorted(self.valid) if not minimum or version >= parse(minimum)]
        there = ", ".join(map(str, sorted(self.valid, reverse=True)[:5])) or "nothing"
        rule = f"It has {there}." + (f" DRANET needs {minimum} or newer." if minimum else "")
        return DriverError(f"{place} has {what} here.", rule=rule, fix=_fix(enough), exit_code=USAGE)


def offer(config: ServerConfig, channel: str | None) -> Offer:
    """What getServerConfig offers in a release channel ("regular"), or without one. Raises a DriverError where the
    place has no such channel."""
    if channel is None:
        return Offer("", parse(config.default_cluster_version), _known(config.valid_master_versions))
    for one in config.channels:
        if one.channel.name == channel.upper():
            return Offer(channel, parse(one.default_version), _known(one.valid_versions))
    there = ", ".join(one.channel.name.lower() for one in config.channels) or "none"
    raise DriverError(
        f"cluster.releaseChannel is {channel}, which GKE does not offer here.", rule=f"It offers {there}."
    )


def _known(texts: Iterable[str]) -> tuple[Version, ...]:
    return tuple(parse(text) for text in texts if _FORM.fullmatch(text))


def _fix(enough: list[Version]) -> str:
    if not enough:
        return "another cluster.releaseChannel (rapid has the newest), or another zone"
    newest = enough[-1].numbers
    return f"cluster.version: {newest[0]}.{newest[1]} (now {enough[-1]})"
