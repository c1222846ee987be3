"""Why a run failed, in plain words with the fix, from what its workers and the entry point wrote.

The entry point ends with `run failed: CAUSE` (trainer/train.py), and that line is in the Ray job's message, which
KubeRay copies into the RayJob, and in the submitter's log. Where it is only the end of a longer story (MaxText ends its
process with a line of equals signs), the lines before it, with the worker's own traceback, say more: they are read too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

_TOLD = "run failed: "
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Ray puts who said it before each line of a worker: `(RayTrainWorker pid=812, ip=10.0.0.7) `.
_SPEAKER = re.compile(r"^\((?:\w[\w.:]*) pid=[^)]*\) ?", re.MULTILINE)
_LONGEST = 600
# What the entry point has for a cause when the worker's last line was not the one that tells it.
_VAGUE = re.compile(r"={5}|For further information|said nothing|ended the process with status|ActorDied|died|exited")


@dataclass(frozen=True)
class Cause:
    """found: what went wrong. rule: what holds. fix: the value or command. said: the words that it was taken from."""

    found: str
    rule: str = ""
    fix: str = ""
    said: str = ""

    def as_data(self) -> dict[str, str]:
        """For `--output json`."""
        return asdict(self)


def find(*texts: str) -> Cause | None:
    """The cause that the texts tell (job's message, log), in the order of how much they are to be believed; None where
    they tell nothing."""
    cleaned = [_clean(text) for text in texts if text]
    told = next((said for text in cleaned if (said := _told(text))), "")
    return (
        _known(told, told)
        or next((cause for text in cleaned if (cause := _known(_last_traceback(text), told))), None)
        or (Cause(_sentence(told), said=told) if told and not _VAGUE.search(told) else None)
        or next((cause for text in cleaned if (cause := _known(text, told))), None)
        or (Cause(_sentence(told), said=told) if told else _exception(cleaned))
    )


def _known(text: str, told: str) -> Cause | None:
    for pattern, make in _KNOWN:
        found = list(pattern.finditer(text))
        if found:
            return make(found[-1], told)
    return None


def _last_traceback(text: str) -> str:
    _, begins, rest = text.rpartition("Traceback (most recent call last)")
    return rest if begins else ""


def _clean(text: str) -> str:
    return _SPEAKER.sub("", _COLOURS.sub("", text.replace("\r", "")))


def _told(text: str) -> str:
    """The entry point's own cause; empty where the text does not have it."""
    _, told, said = text.rpartition(_TOLD)
    return said.strip().splitlines()[0] if told and said.strip() else ""


def _sentence(text: str) -> str:
    text = " ".join(text.split())[:_LONGEST]
    if re.match(r"[a-z]+\b(?![.:/=])", text):  # not what is a name
        text = f"{text[:1].upper()}{text[1:]}"
    return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _exception(texts: Sequence[str]) -> Cause | None:
    """The last line of the last Python traceback, where nothing better is known."""
    for text in texts:
        raised = re.findall(r"^(?:[\w.]+)?(?:Error|Exception|Interrupt|Exit)\b.*", text, re.MULTILINE)
        if raised and "Traceback" in text:
            return Cause(_sentence(raised[-1]), said=raised[-1])
    return None


def _unknown_argument(found: re.Match[str], said: str) -> Cause:
    name, known = found["name"], re.findall(r"'(\w+)'", found["known"])
    near = difflib.get_close_matches(name, known, n=1)
    return _unknown({name: near[0] if near else ""}, said)


def _unknown_arguments(found: re.Match[str], said: str) -> Cause:
    """In the words of the trainer, which looks at all of them before it starts a worker (trainer/arguments.py)."""
    named = re.findall(rf"{_NO_SUCH}(?:; did you mean (\w+)\?)?", found[0])
    return _unknown(dict(named), said)


def _unknown(nearest: Mapping[str, str], said: str) -> Cause:
    """nearest: for each argument that MaxText does not have, one that it has, or an empty text."""
    changes = [(f"{name}=null", f"{near}=..." if near else "") for name, near in nearest.items()]
    return Cause(
        f"MaxText has no argument{'s' if len(nearest) > 1 else ''} {', '.join(nearest)}.",
        rule="job.maxtext takes MaxText's own arguments, by the names of its base.yml.",
        fix=" ".join(f"--set job.maxtext.{change}" for each in changes for change in each if change),
        said=said,
    )


def _refused_argument(found: re.Match[str], said: str) -> Cause:
    problems = list(_problems(found["rest"]))
    listed = "; ".join(f"{name}: {why}" if name else why for name, why in problems)
    first = next((name for name, _ in problems if name), "")
    return Cause(
        f"MaxText refuses job.maxtext: {listed or ' '.join(found['rest'].split())[:_LONGEST]}.".replace("..", "."),
        fix=f"--set job.maxtext.{first}=..." if first else "correct job.maxtext",
        said=said,
    )


def _problems(text: str) -> Iterator[tuple[str, str]]:
    """pydantic's: the argument on a line, and indented below it what is wrong with it."""
    for name, why in re.findall(r"^([\w.]+)\n\s+(.+?)(?: \[type=|$)", text, re.MULTILINE):
        yield name, why.removeprefix("Value error, ")
    if not re.search(r"^[\w.]+\n\s+\S", text, re.MULTILINE):  # as the entry point has it: one line
        one = re.search(r"for \w+ (?:([\w.]+) )??(?:Value error, )?([A-Z].*?) \[type=", " ".join(text.split()))
        if one:
            yield one[1] or "", one[2]


def _overridden(found: re.Match[str], said: str) -> Cause:
    names = ", ".join(re.findall(r"'(\w+)'", found["names"])) or found["names"]
    return Cause(
        f"job.maxtext sets {names}, which the model's own configuration sets to something else.",
        rule="MaxText lets arguments differ from the model's only when it is told so.",
        fix=f"--set job.maxtext.{names.split(', ')[0]}=null, or --set job.maxtext.override_model_config=true",
        said=said,
    )


def _hbm(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"The program needs {found['used']}iB of a chip's HBM, which has {found['has']}iB: {found['over']}iB too much.",
        rule="Weights, optimizer state and activations of a step must fit in each chip's memory.",
        fix="--set job.maxtext.per_device_batch_size=N (smaller), job.maxtext.remat_policy=full, bfloat16 weights "
        "(job.maxtext.weight_dtype=bfloat16), or more chips to shard over (tpu.topology, tpu.slices)",
        said=said,
    )


def _memory(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"The TPU ran out of memory: {_sentence(found[0])}",
        rule="Weights, optimizer state and activations of a step must fit in each chip's memory.",
        fix="--set job.maxtext.per_device_batch_size=N (smaller), or job.maxtext.remat_policy=full",
        said=said,
    )


def _no_tpu(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"JAX cannot use the TPU chips of a host: {_sentence(found['why'])}",
        rule="The workers' image needs libtpu, and the worker all chips of its host to itself.",
        fix="an image with jax[tpu], as `driver image` builds it (image.uri); with libtpu in it, driver nodes tells "
        "which hosts have chips",
        said=said or found[0],
    )


def _host_memory(found: re.Match[str], said: str) -> Cause:
    return Cause(
        "A host ran out of memory, and the process was ended.",
        rule="The memory that a worker's container may use is worker.resources.limits.memory.",
        fix="--set worker.resources.limits.memory=... (up to the machine's), or less on the host: no "
        "offloading (job.maxtext.optimizer_memory_host_offload)",
        said=said or found[0],
    )


def _read_only(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"{found['path'] or 'The run folder'} cannot be written: {found['why'].lower()}.",
        rule="Checkpoints and records go below storage.mountPath, and the run's service account must be allowed to "
        "write there.",
        fix="driver bootstrap binds the service account to the bucket (roles/storage.objectUser); without it, see that "
        "storage.mountOptions has no ro and the claim of storage.claim is ReadWriteMany",
        said=said,
    )


def _full(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"There is no space left to write {found['path'] or 'checkpoints'}.",
        fix="a larger volume, or --set job.maxtext.max_num_checkpoints_to_keep=N (fewer)",
        said=said,
    )


def _stalled(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"The workers made no progress for {found['seconds']} s and were ended. {_sentence(found['rest'])}".strip(),
        rule="A step, an evaluation or a checkpoint must come within job.stallTimeoutSeconds.",
        fix="--set job.stallTimeoutSeconds=N where a step or the compilation really takes longer, else `driver install "
        "--rerun` resumes from the last checkpoint",
        said=said,
    )


def _turn(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"Another job was still training run {found['run']}.",
        rule="Two jobs of one run would write the same checkpoints.",
        fix="driver stop RELEASE for the other one, or another --set-string job.runName=...",
        said=said,
    )


def _not_a_number(found: re.Match[str], said: str) -> Cause:
    return Cause(
        f"The loss was no longer a number: {_sentence(found[0])}",
        rule="MaxText ends a run whose loss is NaN or infinite.",
        fix="a smaller job.maxtext.learning_rate or more warm-up (job.maxtext.warmup_steps_fraction); a new "
        "job.runName begins anew",
        said=said,
    )


_NO_SUCH = r"job\.maxtext\.(\w+): MaxText has no such argument"
_PATH = r"(?P<path>/[^\s'\"]+)?"
_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Cause]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        # MaxText 0.2.5, configs/pyconfig.py.
        (r"MAXTEXT CONFIG ERROR: '(?P<name>[\w.]+)' not in (?P<known>.*)", _unknown_argument),
        (r"Keys (?P<names>\[[^\]]*\]) are overridden by both model config and CLI", _overridden),
        (
            r"(?:MAXTEXT CONFIG ERROR: |MaxText refuses (?:job\.maxtext|the arguments): )"
            r"(?P<rest>(?:(?!.*={20}).*\n?){1,40})",
            _refused_argument,
        ),
        # libtpu, when it compiles.
        (
            r"Ran out of memory in memory space hbm\. Used (?P<used>[\d.]+[MGT]) of (?P<has>[\d.]+[MGT]) hbm\."
            r"\s+Exceeded hbm capacity by (?P<over>[\d.]+[MGT])",
            _hbm,
        ),
        (r"ray\.exceptions\.OutOfMemoryError|OOMKilled|low on memory|MemoryError|Cannot allocate memory", _host_memory),
        (r"RESOURCE_EXHAUSTED: .*", _memory),
        (rf"\[Errno (?:30|13|1)\] (?P<why>[\w\- ]+)(?:: ['\"]?{_PATH})?", _read_only),
        (r"(?P<why>Read-only file system|Permission denied)(?P<path>)", _read_only),
        (rf"\[Errno 28\] No space left on device(?:: ['\"]?{_PATH})?", _full),
        # JAX 0.11, xla_bridge.py.
        (r"Unable to initialize backend 'tpu': (?P<why>.+?)(?: \(set JAX_PLATFORMS=.*|$)", _no_tpu),
        # Ours: trainer/arguments.py, trainer/train.py, trainer/turn.py.
        (rf"{_NO_SUCH}.*", _unknown_arguments),
        (r"the workers made no progress for (?P<seconds>[\d.e+]+) s and were ended[^;]*;?(?P<rest>.*)", _stalled),
        (r"another job has been training run (?P<run>\S+) for", _turn),
        (r"Aborting training due to (?:NaN|Inf).*", _not_a_number),
    )
)
