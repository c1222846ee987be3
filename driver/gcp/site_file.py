"""Reads the site file, and says all that is wrong with it."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from driver import yaml_text
from driver.errors import USAGE, DriverError
from driver.gcp.site import Site
from driver.gcp.site_problems import explain

_RULE = "A site file is YAML: keys with values, as in the example in docs/google-cloud.md."


def read(path: Path) -> Site:
    """The site file at this path.

    Raises a DriverError with all its problems: a file that is not there or not YAML, unknown keys with the nearest
    valid one, values outside of their rule, a TPU shape that does not exist.
    """
    try:
        content = yaml_text.load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DriverError(
            f"There is no site file {path}.",
            rule="It says where the Google Cloud side is: project, zone, cluster, TPUs, bucket.",
            fix="write one (docs/google-cloud.md has an example), or name it with --config FILE",
            exit_code=USAGE,
        ) from None
    except OSError as error:
        raise DriverError(
            f"{path} cannot be read: {error.strerror}.", fix="name the site file with --config FILE", exit_code=USAGE
        ) from None
    except UnicodeDecodeError:
        raise DriverError(f"{path} is not text in UTF-8.", rule=_RULE, exit_code=USAGE) from None
    except ValueError as error:
        raise DriverError(f"{path} is not YAML: {error}.", rule=_RULE, exit_code=USAGE) from None
    if not isinstance(content, dict):
        raise DriverError(f"{path} is {_kind(content)}.", rule=_RULE, exit_code=USAGE)
    try:
        return Site.model_validate(content)
    except ValidationError as error:
        raise DriverError(_numbered(path, explain(error, Site)), exit_code=USAGE) from None


def _kind(content: object) -> str:
    if content is None:
        return "empty"
    return "a list" if isinstance(content, list) else "a single value"


def _numbered(path: Path, problems: list[str]) -> str:
    if len(problems) == 1:
        return f"{path}: {problems[0]}"
    lines = [f"  {number}. {problem}" for number, problem in enumerate(problems, 1)]
    return "\n".join([f"{path} has {len(problems)} problems:", *lines])
