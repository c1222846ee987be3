"""Values for the chart: files, `--set` and `--set-string`, in the order and with the rules of Helm.

They are handed to Helm itself, which merges them (later wins, maps merge, lists replace, null deletes), so that there
is no second opinion on what they mean.
"""

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

from driver import resources
from driver.errors import USAGE, DriverError


@dataclass(frozen=True)
class Values:
    """What the user gave. sets and texts are `a.b=c` as on Helm's command line; literals take the value as it stands,
    whatever characters it has, and win over all others, as Helm's --set-literal does."""

    files: tuple[Path, ...] = ()
    sets: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    literals: tuple[str, ...] = ()

    def but(self, *sets: str, literals: tuple[str, ...] = ()) -> "Values":
        """The same values with some set last."""
        return replace(self, sets=(*self.sets, *sets), literals=(*self.literals, *literals))

    def helm_arguments(self) -> list[str]:
        """The same as arguments of `helm template` and `helm upgrade`."""
        arguments: list[str] = []
        for flag, given in (
            ("--values", self.files),
            ("--set", self.sets),
            ("--set-string", self.texts),
            ("--set-literal", self.literals),
        ):
            for value in given:
                arguments += [flag, str(value)]
        return arguments


def find_file(given: str) -> Path:
    """The values file of this path, or the profile of this name (`tiny` or `tiny.yaml`).

    Raises a DriverError that names the nearest profile.
    """
    path = Path(given)
    if path.is_file():
        return path
    profiles = resources.profiles()
    if given.removesuffix(".yaml") in profiles:
        return resources.values_dir() / f"{given.removesuffix('.yaml')}.yaml"
    near = difflib.get_close_matches(path.stem, profiles, n=1)
    raise DriverError(
        f"There is no values file {given}." if not path.is_dir() else f"{given} is a folder, not a values file.",
        rule=f"It is the path of a YAML file, or one of the profiles: {', '.join(profiles)}.",
        fix=f"-f {near[0]}" if near else "",
        exit_code=USAGE,
    )


def release_name(files: tuple[Path, ...]) -> str:
    """A release's name where the user gave none: that of the first values file, as Kubernetes accepts it."""
    stem = files[0].stem.lower() if files else "local"
    return (
        "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in stem).strip("-")[:34] or "local"
    )
