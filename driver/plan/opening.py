"""Opens the compiler for one run: its environment, its servers, the cache, and what the table says of the chips."""

import contextlib
import errno
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from driver.plan import environment, leftovers, refusals, session
from driver.plan.bounds import Speeds
from driver.plan.cache import Cache
from driver.plan.candidates import Site
from driver.plan.compiling import CachedCompiler, DumpPredictor
from driver.plan.verdict import Case, Refusal
from driver.tpu import Hardware, hardware

_PREFIX = "driver-plan-"


@contextlib.contextmanager
def compiler(
    run: Mapping[str, Any], python: Path | None, servers: int | None, cache: Cache | None = None
) -> Iterator[tuple[Site, CachedCompiler, DumpPredictor]]:
    """What planning needs. However it ends, no compilation is left.

    python: of an environment with MaxText and libtpu, or None for the one in the user's cache, which is installed if it
    is not there. servers: compilations at once, or None for as many as cores and memory allow.
    cache: None for the user's.

    Of a given interpreter whose MaxText, JAX or libtpu may be edited nothing is kept, and nothing kept is used.

    Raises a DriverError where there is no room on the disk for what is compiled.
    """
    chip = hardware(run["tpu"]["type"])
    interpreter = environment.compiler_python(python)
    versions = environment.versions(interpreter)
    most = servers or session.usable_servers()
    # The cached environment is its lock's, as is the trainer's image: there the versions say it all.
    packages, lasting = ("", True) if python is None else environment.packages(python)
    site = Site(run, environment.maxtext_configs(interpreter), _speeds(chip), versions)
    leftovers.sweep(Path(tempfile.gettempdir()), f"{_PREFIX}*")
    with (
        _room_on_the_disk(run),
        tempfile.TemporaryDirectory(prefix=_PREFIX) as folder,
        leftovers.in_use(Path(folder)),
        session.Compiler(interpreter, Path(folder) / "work", servers=most) as open_session,
    ):
        kept = (cache or Cache()) if lasting else Cache(Path(folder) / "results")
        cached = CachedCompiler(run, open_session, kept, versions, most, packages)
        yield site, cached, DumpPredictor(chip, run["tpu"]["topology"])


@contextlib.contextmanager
def _room_on_the_disk(run: Mapping[str, Any]) -> Iterator[None]:
    """Of the driver's own writing; the compiler's is in its answers."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        raise refusals.as_error(run, Case(int(run["slices"]["max"])), Refusal("disk", said)) from error


def _speeds(chip: Hardware) -> Speeds:
    """For the order of a search. A link of unknown speed takes no part in it."""
    devices = chip.devices_per_chip
    return Speeds(
        tflops=chip.peak_flops / devices / 1e12,
        ici=2 * chip.ici_link_bandwidth / devices,  # one axis of the torus, both ways
        dcn=chip.dcn_bandwidth / devices,
        host=float("inf") if chip.pcie_bandwidth is None else chip.pcie_bandwidth / devices,
    )
