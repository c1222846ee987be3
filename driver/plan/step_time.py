"""How long a training step will take: a prediction, from the program that the compiler made and the chip's figures.

The program runs in the compiler's own order. A fusion with matrix products takes the cycles that the compiler's cost
model estimates, or its FLOPs at the peak where no code was generated yet; what else computes takes as long as HBM needs
for its bytes (roofline.py says why); splash attention its FLOPs at a measured share of the peak (flops.py), and other
kernels what their authors estimate. A transfer takes its link from when it starts, and a link serves first what the
program waits for first; what of it is not over when the program waits for it is exposed, and that alone adds time.
Loops are looked at once and multiplied.

What is left out, so that a real step takes longer: latencies of transfers and of Megascale's runtime, with TCP and
gRPC; slices and hosts waiting for each other; the input pipeline; saving checkpoints; a clock lowered by heat; the HBM
bandwidth that transfers take from computing; SparseCore. Nothing here is fitted to measured steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from driver.errors import DriverError
from driver.plan import flops, roofline, traffic
from driver.plan.codegen import Instruction, Program
from driver.plan.traffic import Link, Transfer
from driver.tpu import Hardware

LINKS: tuple[Link, ...] = ("ici", "dcn", "toHost", "toDevice")


@dataclass
class Spent:
    """Seconds of a step, and bytes that one JAX device moves in it."""

    compute: float = 0.0
    attention: float = 0.0
    exposed: dict[Link, float] = field(default_factory=lambda: dict.fromkeys(LINKS, 0.0))
    """Waiting for transfers."""
    taken: dict[Link, float] = field(default_factory=lambda: dict.fromkeys(LINKS, 0.0))
    """How long each link is busy, beside computing or not."""
    bytes: dict[Link, float] = field(default_factory=lambda: dict.fromkeys(LINKS, 0.0))
    """Sent over ICI and over DCN, to the host's memory and from it."""

    @property
    def seconds(self) -> float:
        return self.compute + self.attention + sum(self.exposed.values())

    def add(self, other: "Spent", times: float = 1) -> None:
        self.compute += other.compute * times
        self.attention += other.attention * times
        for mine, theirs in ((self.exposed, other.exposed), (self.taken, other.taken), (self.bytes, other.bytes)):
            for link in LINKS:
                mine[link] += theirs[link] * times


@dataclass(frozen=True)
class StepTime:
    spent: Spent
    unknown: tuple[str, ...]
    """What has no figure in files/tpu-types.yaml, so that the prediction is too short: one sentence each."""
    generated: bool
    """Whether the compiler has generated code, and estimated its matrix products; else they are taken at the peak."""

    @property
    def seconds(self) -> float:
        return self.spent.seconds


def predict(program: Program, hardware: Hardware, topology: str) -> StepTime:
    """For one step on slices of this topology.

    Raises:
        DriverError: nothing says how fast this type computes, or a loop has no trip count.
    """
    if hardware.clock_hz is None:
        raise DriverError(
            f"There is no prediction of a step's time on {hardware.type}: no source was found for its clock.",
            rule="The compiler estimates in cycles, and files/tpu-types.yaml has the clock of most types.",
            fix="judge memory alone, or put a clock with its source into the chart's files/tpu-types.yaml",
        )
    run = _Run(program, hardware, topology, hardware.clock_hz)
    spent = run.computation(program.entry, _Links())
    return StepTime(spent, tuple(sorted(run.unknown)), run.generated)


@dataclass
class _UnderWay:
    left: float
    """Seconds that it still takes its link for."""
    awaited: int
    """Place in the program where it is waited for."""


_NEVER = 1 << 62


@dataclass
class _Links:
    """What is on its way on each link, by identity.

    A link serves first what the program waits for first. Which order the hardware keeps is not published; the compiler
    has put each wait where it takes the transfer to be over, and profiles show the copies of such programs hidden.
    """

    under_way: dict[Link, dict[str, _UnderWay]] = field(default_factory=lambda: {link: {} for link in LINKS})

    def copy(self) -> "_Links":
        """For a computation of its own: nothing in it waits for what is under way."""
        return _Links(
            {link: {name: _UnderWay(one.left, _NEVER) for name, one in ones.items()}
             for link, ones in self.under_way.items()}
        )  # fmt: skip

    def begin(self, link: Link, identity: str, takes: float, awaited: int) -> None:
        self.under_way[link][identity] = _UnderWay(takes, awaited)

    def pass_by(self, seconds: float) -> None:
        """Time goes by while the program computes or waits for another link."""
        for link in LINKS:
            self._serve(link, seconds)

    def wait(self, identity: str) -> tuple[Link | None, float]:
        """Lets the time go by until this transfer is over. Returns its link, and how long that was."""
        for link, ones in self.under_way.items():
            if identity in ones:
                waited = ones.pop(identity).left
                for other in LINKS:
                    if other != link:
                        self._serve(other, waited)
                return link, waited
        return None, 0.0

    def after_loop(self, inside: "_Links", idle: Mapping[Link, float], passes: int) -> None:
        """What is left when a loop is over: what was under way before goes on in the link's idle time of all passes.

        inside: after one pass. idle: seconds of a pass. passes: further ones.
        """
        for link, ones in self.under_way.items():
            before = {name: one.awaited for name, one in ones.items()}
            self.under_way[link] = inside.under_way[link]
            waiting = {name: one for name, one in self.under_way[link].items() if name in before}
            for name, one in waiting.items():
                one.awaited = before[name]
            self._serve(link, passes * max(0.0, idle[link]), waiting)

    def _serve(self, link: Link, seconds: float, only: Iterable[str] | None = None) -> None:
        ones = self.under_way[link]
        for identity in sorted(ones if only is None else only, key=lambda name: ones[name].awaited):
            served = min(seconds, ones[identity].left)
            ones[identity].left -= served
            seconds -= served
            if ones[identity].left <= 0:
                del ones[identity]
            if seconds <= 0:
                return


class _Run:
    def __init__(self, program: Program, hardware: Hardware, topology: str, clock_hz: float) -> None:
        self._program = program
        self._hardware = hardware
        self._topology = topology
        self._clock_hz = clock_hz
        self.unknown: set[str] = set()
        self.generated = False
        self._kernels = self._seconds_of_kernels()

    def computation(self, name: str, links: _Links) -> Spent:
        """One pass. `links` are left as they are at its end."""
        spent = Spent()
        instructions = self._program.computation(name)
        awaited = _ends(instructions, self._program)
        deadlines = {
            identity: place for place, one in enumerate(instructions) for identity in awaited.get(one.name, ())
        }
        begun: set[str] = set()
        for one in instructions:
            if one.loop or one.opcode in ("call", "conditional"):
                self._inner(one, name, spent, links)
                continue
            kernel = self._kernels.get(one.name)
            seconds = self._computing(one, name) if kernel is None else kernel
            if kernel is None:
                spent.compute += seconds
            else:
                spent.attention += seconds
            links.pass_by(seconds)
            for identity, moved in traffic.transfers(one, self._program).items():
                if identity not in begun:
                    begun.add(identity)
                    self._begin(identity, moved, deadlines.get(identity, _NEVER), spent, links)
            for identity in awaited.get(one.name, ()):
                # A recv without its send is Megascale's answer to another computation's.
                link, waited = links.wait(identity) if identity in begun else (None, 0.0)
                if link:
                    spent.exposed[link] += waited
        return spent

    def _computing(self, one: Instruction, computation: str) -> float:
        if one.estimated:
            self.generated = True
            return one.cycles / self._clock_hz
        chip = self._hardware
        flops, moved = self._work(one, computation)
        return max(flops / chip.peak_flops, moved / chip.hbm_bandwidth) * chip.devices_per_chip

    def _work(self, one: Instruction, computation: str) -> tuple[float, float]:
        """FLOPs, and bytes to and from HBM."""
        if not roofline.is_kernel(one):
            flops = roofline.matmul_flops(one, self._program, computation)
            return flops, roofline.hbm_bytes(one, self._program, computation)
        cost = roofline.kernel_cost(one)
        if cost is None:
            kind = one.name.split(".")[0]
            self.unknown.add(f"The kernel {kind} has no estimate: it takes what HBM takes for its operands in this.")
        return cost or (0.0, roofline.kernel_bytes(one))

    def _inner(self, one: Instruction, computation: str, spent: Spent, links: _Links) -> None:
        """A loop's passes, or the longest branch of a conditional."""
        times = self._program.trips(one, computation) if one.loop else 1
        names = (one.loop[1],) if one.loop else one.called
        passes = [(self.computation(name, left), left) for name in names for left in [links.copy()]]
        if not passes or not times:
            return
        longest, left = max(passes, key=lambda each: each[0].seconds)
        spent.add(longest, times)
        links.after_loop(left, {link: longest.seconds - longest.taken[link] for link in LINKS}, times - 1)

    def _begin(self, identity: str, moved: Transfer, awaited: int, spent: Spent, links: _Links) -> None:
        try:
            takes = traffic.seconds(moved, self._hardware, self._topology)
        except ValueError as missing:
            self.unknown.add(f"Transfers with the host take no time in this: {missing}.")
            takes = 0.0
        links.begin(moved.link, identity, takes, awaited)
        spent.taken[moved.link] += takes
        spent.bytes[moved.link] += moved.bytes

    def _seconds_of_kernels(self) -> dict[str, float]:
        """Splash attention's calls by their instruction's name, which is unique in a program."""
        found = [(one.name, flops.attention(one), times) for one, times in self._program.executed()]
        calls = [(call, times) for _, call, times in found if call]
        share = self._hardware.splash_of_peak
        if calls and share is None:
            self.unknown.add(f"Attention kernels run at the peak in this: {self._hardware.type} has no splashOfPeak.")
        share = share or {"forward": 1.0, "backward": 1.0}
        peak = self._hardware.peak_flops / self._hardware.devices_per_chip
        return {
            name: flops.padded_flops(call, calls, self._hardware.mxu_width)
            / (peak * share["forward" if call.forward else "backward"])
            for name, call, _ in found
            if call
        }


def _ends(instructions: Iterable[Instruction], program: Program) -> dict[str, list[str]]:
    """Instruction to the transfers that it waits for: a -done those of its start, a collective without one its own.

    A collective that the compiler has fused with computing is in several fusions: the last one waits.
    """
    last: dict[str, str] = {}
    starts: dict[str, list[str]] = {}
    for one in instructions:
        moved = traffic.transfers(one, program)
        last.update(dict.fromkeys(moved, one.name))
        if one.opcode == "recv":
            starts[one.name] = [traffic.rendezvous(one)]
        elif one.opcode.endswith("-start"):
            starts[one.name] = list(moved)
        elif one.opcode.endswith("-update"):
            starts[one.name] = [identity for operand in one.operands for identity in starts.get(operand, ())]
        elif one.opcode.endswith("-done"):
            last.update({identity: one.name for operand in one.operands for identity in starts.get(operand, ())})
    waits: dict[str, list[str]] = {}
    for identity, name in last.items():
        waits.setdefault(name, []).append(identity)
    return waits
