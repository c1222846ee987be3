"""Where the chart, the profiles and the trainer lie: in the source tree, or inside the installed package.

The chart has links to the profiles and to the trainer. From a checkout (or an editable install of one) they lead to
the folders that are edited; a wheel holds the chart, links turned into files, as `driver/bundled`, put there by
package_dir in setup.cfg. What is fetched or built once per machine is in the user's cache folder.
"""

import os
from pathlib import Path

from driver.errors import DriverError

CHART_NAME = "maxtext-multislice"

_PACKAGE = Path(__file__).resolve().parent


def chart_dir() -> Path:
    """The Helm chart's folder."""
    return _first_with("Chart.yaml", _PACKAGE.parent / "charts" / CHART_NAME, _PACKAGE / "bundled")


def values_dir() -> Path:
    """The folder of the profiles (`tiny.yaml`, `llama3-8b.yaml`, ...)."""
    return _first_with("tiny.yaml", chart_dir() / "files" / "profiles").resolve()


def trainer_dir() -> Path:
    """The folder of what runs on the cluster, with its locks and its Dockerfile."""
    return _first_with("train.py", chart_dir() / "files" / "trainer").resolve()


def profiles() -> list[str]:
    """The names of the profiles, without `.yaml`, sorted."""
    return sorted(path.stem for path in values_dir().glob("*.yaml"))


def cache_dir() -> Path:
    """Where fetched tools (`bin/helm`) and the trainer's environments are kept, by scripts/ too; safe to delete.

    $XDG_CACHE_HOME/maxtext-multislice, by default below ~/.cache
    (https://specifications.freedesktop.org/basedir-spec/latest/).
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / CHART_NAME


def _first_with(landmark: str, *folders: Path) -> Path:
    for folder in folders:
        if (folder / landmark).is_file():
            return folder
    raise DriverError(
        f"The installation of maxtext-multislice is incomplete: {landmark} is not in {' or '.join(map(str, folders))}.",
        fix="install it again, from the wheel or with `pip install .` in a checkout",
    )
