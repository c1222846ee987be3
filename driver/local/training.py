"""One run of the chart on emulated slices, from the values to the report: what `driver local` does."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from driver.chart import Rendering, render
from driver.errors import USAGE, DriverError
from driver.local import environment, preemption, progress, report, session
from driver.local.following import Follower
from driver.local.hosts import Hosts
from driver.local.machine import available_memory_gib, namespace_command, port_is_free
from driver.tpu import topologies
from driver.values import Values, release_name

# Resident memory of what Ray itself runs, GiB, rounded up.
_HEAD_GIB = 2.0
_HOST_GIB = 0.5


@dataclass(frozen=True)
class Request:
    """What the user asked for (`driver local --help`). None leaves a value to the profile."""

    values: Values
    out: Path
    slices: int | None = None
    hosts: int | None = None
    steps: int | None = None
    events: tuple[preemption.Event, ...] = ()
    keep: bool = False
    trainer_python: Path | None = None
    dashboard_port: int | None = None


def train(request: Request, console: Console, tell_result: Callable[[Mapping[str, Any]], None]) -> bool:
    """Trains, and returns the job's truth. Progress goes to `console`, the facts of the result to `tell_result`.

    Raises a DriverError for what cannot work, and when it is interrupted (Ctrl-C, SIGTERM, SIGHUP). However it ends, no
    process is left.
    """
    begun = time.time()
    rendering = plan(request)
    run, _ = rendering.run, rendering.job  # which tells when it is switched off
    events = preemption.check(request.events, run)
    namespace_command()
    _check_port(request.dashboard_port)
    run_folder = Path(run["outputDirectory"]) / run["name"]
    console.print(_title(run), soft_wrap=True)
    with _interruptible(), session.sole_user(run_folder), session.working_folder() as folder:
        work = _write(rendering, folder / "trainer")
        python = environment.trainer_python(request.trainer_python)
        _compare_versions(run, environment.versions(python), console)
        with console.status("Checking the run with MaxText"):
            _check_memory(run, environment.check(python, work)["hostMemoryGib"])
        hosts = Hosts(folder / "hosts", python, run["tpu"], request.dashboard_port)
        with contextlib.closing(hosts):
            with progress.display(console) as display:
                follower = Follower(hosts, rendering, work, events, display)
                state = _follow(follower, run_folder / "logs")
            for event in follower.not_rehearsed:
                console.print(f"[yellow]Not rehearsed:[/] {event}. Steps are seen once a second; this run was faster.")
            succeeded = state.status == "SUCCEEDED"
            result = report.facts(
                run,
                work,
                succeeded=succeeded,
                cause=follower.cause(state),
                begun=begun,
                ended=time.time(),
                events=follower.happened,
                log=follower.save_logs(run_folder / "logs", everything=not succeeded),
            )
            tell_result(result)
            if request.keep:
                _keep(hosts, console)
    return succeeded


def plan(request: Request) -> Rendering:
    """The chart's rendering of the request: all that changes a run is a value of the chart."""
    out = request.out.expanduser().resolve()
    # An image of one's own means that nothing is installed when the job starts.
    values = request.values.but("tpu.emulated=true", "image.uri=driver-local", literals=(f"storage.mountPath={out}",))
    if request.slices is not None:
        values = values.but(f"tpu.slices={request.slices}")
    if request.steps is not None:
        values = values.but(f"job.steps={request.steps}")
    release = release_name(values.files)
    if request.hosts is not None:
        tpu = render(values, release).run["tpu"]
        topology = topology_of(tpu["type"], request.hosts, tpu["chipsPerHost"])
        values = values.but(f"tpu.topology={topology}", f"tpu.chipsPerHost={tpu['chipsPerHost']}")
    return render(values, release)


def topology_of(tpu_type: str, hosts: int, chips_per_host: int) -> str:
    """The type's topology with this many hosts of this many chips, by the chart's table.

    Raises a DriverError that names the numbers of hosts that there are.
    """
    known = topologies(tpu_type, chips_per_host)
    if hosts not in known:
        raise DriverError(
            f"--hosts {hosts}: there is no {tpu_type} slice of {hosts} hosts with {chips_per_host} chips each.",
            rule=f"There are slices of {', '.join(map(str, sorted(known)))} such hosts.",
            exit_code=USAGE,
        )
    return known[hosts]


def _follow(follower: Follower, logs: Path) -> Any:
    try:
        return follower.until_the_end()
    except KeyboardInterrupt:
        step = follower.view.step
        follower.save_logs(logs, everything=False)
        raise DriverError(
            f"Interrupted at step {step}." if step >= 0 else "Interrupted before the first step.",
            fix="the same command goes on from the last checkpoint" if step >= 0 else "",
        ) from None
    except DriverError as error:
        kept = follower.save_logs(logs, everything=True)
        raise DriverError(error.found, rule=f"The logs are in {kept.with_suffix('')}.", fix=error.fix) from error


def _title(run: Mapping[str, Any]) -> str:
    tpu, slices = run["tpu"], run["slices"]
    some = f"{slices['min']} to {slices['max']}" if slices["min"] < slices["max"] else slices["max"]
    shape = f"{some} emulated {'slice' if slices['max'] == 1 else 'slices'} of {tpu['type']} {tpu['topology']}"
    hosts = f"{tpu['hostsPerSlice']} x {tpu['chipsPerHost']} chips"
    return f"Run [bold]{run['name']}[/]: {run['steps']} steps on {shape} ({hosts} each)"


def _write(rendering: Rendering, work: Path) -> Path:
    """The trainer's ConfigMap as the folder that it becomes in a pod."""
    work.mkdir()
    for name, content in rendering.trainer_files.items():
        (work / name).write_text(content)
    return work


def _check_port(port: int | None) -> None:
    if port is not None and not port_is_free(port):
        raise DriverError(
            f"Port {port} is in use.",
            fix="another --dashboard-port, or none: then a free one is chosen",
            exit_code=USAGE,
        )


def _check_memory(run: Mapping[str, Any], host_gib: float) -> None:
    hosts = run["slices"]["max"] * run["tpu"]["hostsPerSlice"]
    needed, available = _HEAD_GIB + hosts * (host_gib + _HOST_GIB), available_memory_gib()
    if needed > available:
        raise DriverError(
            f"The run needs some {needed:,.1f} GiB of memory on this machine, and {available:,.1f} GiB are available.",
            rule=f"{hosts} emulated hosts, {host_gib:,.1f} GiB each: every one of their chips holds the whole model.",
            fix="a smaller model (-f tiny), fewer --slices or --hosts, or a machine with more memory",
        )


def _compare_versions(run: Mapping[str, Any], here: Mapping[str, str], console: Console) -> None:
    wanted = {name: run["versions"][name] for name in here}
    if wanted != here:
        names = {"ray": "Ray", "maxtext": "MaxText"}
        said = [", ".join(f"{names[name]} {version}" for name, version in these.items()) for these in (wanted, here)]
        console.print(f"[yellow]The run is for {said[0]}; here it is tried with {said[1]}.[/]", soft_wrap=True)


def _keep(hosts: Hosts, console: Console) -> None:
    console.print(f"\nThe cluster is kept until Ctrl-C. Ray's dashboard: {hosts.dashboard.address}")
    console.print(f"It asks for this token: {hosts.dashboard.token}")
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end the run in the same order as Ctrl-C."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
