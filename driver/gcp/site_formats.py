"""The kinds of text in a site file: Google's and Kubernetes' names, and ranges, each with its rule in words."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import AfterValidator


class BrokenRuleError(ValueError):
    """Its message is the rule that a value breaks."""


def _text(pattern: str, rule: str) -> AfterValidator:
    expression = re.compile(pattern)

    def check(value: str) -> str:
        if not expression.fullmatch(value):
            raise BrokenRuleError(rule)
        return value

    return AfterValidator(check)


# https://cloud.google.com/resource-manager/docs/creating-managing-projects
ProjectId = Annotated[
    str,
    _text(
        r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]",
        "A project's ID has 6 to 30 lower-case letters, digits and hyphens, begins with a letter and does not end with "
        "a hyphen, as in my-project; it may follow a domain, as in example.com:my-project. "
        "`gcloud projects list` shows yours.",
    ),
]

# RFC 1035, as Compute Engine, GKE and Artifact Registry ask of every name.
Name = Annotated[
    str,
    _text(
        r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
        "A name has at most 63 lower-case letters, digits and hyphens, begins with a letter and does not end with a "
        "hyphen.",
    ),
]

_PLAIN = r"[a-z]([a-z0-9-]*[a-z0-9])?"

# A network of another project is a shared VPC's.
NetworkPath = Annotated[
    str,
    _text(
        f"(projects/[a-z0-9.:-]+/global/networks/)?{_PLAIN}",
        "It is a network's name, or of another project projects/PROJECT/global/networks/NAME.",
    ),
]
SubnetworkPath = Annotated[
    str,
    _text(
        f"((projects/[a-z0-9.:-]+/regions/[a-z0-9-]+/subnetworks/)?{_PLAIN})?",
        "It is a subnet's name, or of another project projects/PROJECT/regions/REGION/subnetworks/NAME.",
    ),
]
Reservation = Annotated[
    str,
    _text(
        f"({_PLAIN}(/reservationBlocks/{_PLAIN}(/reservationSubBlocks/{_PLAIN})?)?)?",
        "It is a reservation's name, or a part of one as NAME/reservationBlocks/BLOCK. The project that has it is "
        "tpu.reservationProject.",
    ),
]

# GKE's own limit is 40; the mark's value on our resources is cluster and location, 63 in all.
ClusterName = Annotated[
    str,
    _text(
        r"[a-z]([a-z0-9-]{0,35}[a-z0-9])?",
        "A cluster's name has at most 37 lower-case letters, digits and hyphens, begins with a letter and does not end "
        "with a hyphen. It is the beginning of other names and of a label, which need the rest.",
    ),
]

# https://cloud.google.com/storage/docs/buckets#naming
BucketName = Annotated[
    str,
    _text(
        # Not like an IP address; where there are dots, up to 63 characters between them and 222 in all.
        r"(?!\d+\.\d+\.\d+\.\d+$)(?=.{3,222}$)(?=[^.]{1,63}(\.[^.]{1,63})*$)[a-z0-9][a-z0-9_.-]*[a-z0-9]",
        "A bucket's name has 3 to 63 lower-case letters, digits, hyphens, underscores and dots, begins and ends with a "
        "letter or a digit, and does not look like an IP address. It stands here without gs://.",
    ),
]

# An AI zone has a longer last part: us-south1-ai1b.
Zone = Annotated[
    str,
    _text(
        r"[a-z]+-[a-z]+\d+-([a-z]|ai\d+[a-z])",
        "A zone is a region and a letter, as in us-east5-b. `gcloud compute zones list` shows all.",
    ),
]

# https://cloud.google.com/kubernetes-engine/versioning
Version = Annotated[
    str,
    _text(
        r"(\d+\.\d+(\.\d+(-gke\.\d+)?)?)?",
        'A GKE version is as in 1.35.2-gke.1842000, or its beginning in quotes, as in "1.35".',
    ),
]

KubernetesName = Annotated[
    str,
    _text(
        r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
        "A name in Kubernetes has at most 63 lower-case letters, digits and hyphens, and begins and ends with a letter "
        "or a digit.",
    ),
]

# https://cloud.google.com/vpc/docs/subnets#prohibited-ipv4-ranges
_SET_ASIDE = tuple(
    map(ipaddress.IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "199.36.153.0/28"))
)
# https://cloud.google.com/vpc/docs/subnets#valid-ranges
_SHORTEST_PREFIX, _LONGEST_PREFIX = 8, 29


def range_problems(ranges: Sequence[str]) -> Iterator[str]:
    """What is wrong with network.ranges: ranges that are none, and those that overlap."""
    parsed: list[ipaddress.IPv4Network] = []
    for text in ranges:
        try:
            one = ipaddress.IPv4Network(text)
        except ValueError:
            yield _not_a_range(text)
            continue
        if not _SHORTEST_PREFIX <= one.prefixlen <= _LONGEST_PREFIX:
            yield (
                f"network.ranges has {text!r}, with a prefix of {one.prefixlen} bits. A subnet's has "
                f"{_SHORTEST_PREFIX} to {_LONGEST_PREFIX}, as in 10.50.0.0/16."
            )
        if "/" in text and str(one) != text:
            yield f"network.ranges has {text!r}. Google writes it as {one}."
        if any(one.overlaps(other) for other in _SET_ASIDE):
            yield f"network.ranges has {one}, which is set aside for other uses."
        for other in parsed:
            if one.overlaps(other):
                yield f"network.ranges has {other} and {one}, which overlap. Each network needs a range of its own."
        parsed.append(one)


def _not_a_range(text: str) -> str:
    try:
        meant = ipaddress.IPv4Interface(text).network
    except ValueError:
        return f"network.ranges has {text!r}. A range is an IPv4 address and the length of its prefix: 10.50.0.0/16."
    return f"network.ranges has {text!r}, an address inside of a range. The range is {meant}."
