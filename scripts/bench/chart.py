"""How long does Helm take to render the chart, and how large is what it keeps of a release in the cluster?

    scripts/bench/run chart [--runs 15] [--output json]

Rendering: wall time of `helm template` for 2 and for 256 slices of the profile llama3-8b, in turns, by the oldest and
the newest Helm that the chart supports. The slices of a run are one group of workers, so the ratio of the medians
should be about 1.

Release secret: Helm keeps each revision of a release in one Secret as the release's JSON (with the whole chart), gzip
at its best, in base64 (helm's pkg/storage/driver/util.go). The API shows this in base64 once more, as it shows all data
of Secrets, but the limit of 1 MiB is on the data without that (MaxSecretSize in Kubernetes' pkg/apis/core/types.go).
The JSON is what `helm install --dry-run=client --output=json` of Helm 4 writes without a cluster: it differs from the
stored one in the words for the release's state. Here it is compressed by zlib, which makes 1.5 % less of it than Go
does. All profiles and supported shapes are measured.
"""

import argparse
import base64
import gzip
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from scripts.bench import command_line
from tests.chart.rendering import CHART, REPOSITORY, helm
from tests.chart.shapes import EVERYTHING, HELMS, helm_of

FEW, MANY = 2, 256
LIMIT_BYTES = 1024 * 1024
_RENDERED = REPOSITORY / "values" / "llama3-8b.yaml"
_NAMED = "llama3-70b"


def main() -> int:
    options = _options()
    rendering = {version: render_seconds(helm_of(version), options.runs) for version in HELMS}
    secrets = {_name(file): secret_bytes(file) for file in track(EVERYTHING, "releases", console=Console(stderr=True))}
    largest = max(secrets, key=lambda name: secrets[name]["data"])
    facts = {
        "rendering": rendering,
        "secretLimitBytes": LIMIT_BYTES,
        "secretBytes": secrets,
        "largest": largest,
        "largestShareOfLimit": _share(secrets[largest]),
    }
    command_line.answer(options.output, facts, _rendering_table(rendering, options.runs), _secrets_table(facts))
    return 0


def render_seconds(program: str, runs: int) -> dict[str, float]:
    """Median wall times of `helm template` in seconds, and how many times that of few slices the other is."""
    seconds: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(runs):
        for slices, taken in seconds.items():
            began = time.perf_counter()
            helm("template", "demo", str(CHART), f"--values={_RENDERED}", f"--set=tpu.slices={slices}", program=program)
            taken.append(time.perf_counter() - began)
    few, many = (statistics.median(seconds[slices]) for slices in (FEW, MANY))
    return {f"seconds{FEW}": round(few, 4), f"seconds{MANY}": round(many, 4), "ratio": round(many / few, 3)}


def secret_bytes(file: Path) -> dict[str, int]:
    """Of a release with a values file: its JSON, that in gzip, the Secret's data, and the data as the API shows it."""
    kept = release(file)
    compressed = gzip.compress(kept, compresslevel=9, mtime=0)
    data = base64.b64encode(compressed)
    return {"json": len(kept), "gzip": len(compressed), "data": len(data), "shown": len(base64.b64encode(data))}


def release(file: Path) -> bytes:
    """The JSON that Helm keeps of a release with a values file."""
    options = ("--dry-run=client", "--output=json", f"--values={file}")
    return helm("install", "demo", str(CHART), *options, program=helm_of("newest")).rstrip("\n").encode()


def _rendering_table(rendering: dict[str, dict[str, float]], runs: int) -> Table:
    rows = [(f"{version} Helm", *(each.values())) for version, each in rendering.items()]
    title = f"helm template, seconds (median of {runs})"
    return command_line.table(title, ("", f"{FEW} slices", f"{MANY} slices", "ratio"), rows)


def _secrets_table(facts: dict[str, Any]) -> Table:
    secrets: dict[str, dict[str, int]] = facts["secretBytes"]
    chosen = {_NAMED: _NAMED, f"{facts['largest']}, the largest of {len(secrets)}": facts["largest"]}
    rows = [(told, *secrets[name].values(), f"{_share(secrets[name]):.1%}") for told, name in chosen.items()]
    return command_line.table("Release secret, bytes", ("", "JSON", "gzip", "data", "as shown", "data of 1 MiB"), rows)


def _share(sizes: dict[str, int]) -> float:
    return round(sizes["data"] / LIMIT_BYTES, 4)


def _name(file: Path) -> str:
    return file.stem if file.parent.name == "values" else f"ci/{file.stem}"


def _options() -> argparse.Namespace:
    parser = command_line.parser(__doc__)
    parser.add_argument(
        "--runs", type=command_line.positive, default=15, help="renderings for each number of slices and each Helm [15]"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
