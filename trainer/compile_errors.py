"""What MaxText, JAX and libtpu say when they cannot compile, told apart by kind.

The kinds are argument, sharding, batch, topology, flag, memory, killed, disk and other. `memory` is an answer and not
an error: the program does not fit into the chip's HBM. What the words are is libtpu 0.0.46's, jax 0.11.1's and MaxText
0.2.5's; each pattern is a test.
"""

import re
import signal
from collections.abc import Iterator
from typing import Any

_SHARDING = re.compile(r"NamedSharding\(mesh=Mesh\(.*?\)\), spec=(P\(.*?\)), memory_kind=\w+\)")
"""JAX names all axes of the mesh wherever it names a sharding."""

_USED = re.compile(
    r"(?:\bUsed |\btotal memory required for HLO temporaries \()([\d.]+)([BKMGT])i?B?\)? (?:of [\d.]+\w* hbm|exceeds)"
)
"""Two sayings of libtpu 0.0.46. The second one's total is all of HBM, and not temporaries alone."""

_LONGEST = 4000
"""Letters of what is passed on: MaxText lists all of its arguments, and the compiler its largest allocations."""

_BY_WORDS: tuple[tuple[str, str], ...] = (
    ("disk", r"No space left on device|Disk quota exceeded|ENOSPC"),
    ("flag", r"[Uu]nknown (?:command[- ]line )?flags?\b|No such compile option|[Ii]llegal value .* for flag"),
    # The flags of the upstream tutorial, with libtpu from 0.0.46 to 0.0.52: two of them exclude each other.
    ("flag", r"Continuation fusion for \w+ is enabled"),
    # The scratch memory of a kernel, which a flag limits (xla_tpu_scoped_vmem_limit_kib), and not the chip's HBM.
    ("flag", r"(?:memory space|scoped) vmem|max_vmem_kib"),
    ("memory", r"RESOURCE_EXHAUSTED|Ran out of memory (?:in memory space hbm|on HBM)|[Ee]xceeded hbm capacity"),
    ("killed", r"std::bad_alloc|MemoryError|Cannot allocate memory"),
    ("topology", r"Invalid compile topology|not the slice that the run asks for"),
    (
        "sharding",
        r"does not match the product of the (?:ICI|DCN) parallelism|Unspecified value unable to be determined"
        r"|more than one (?:ICI|DCN)\s+parallelism axis|Failed to find assignment for logical_axis"
        r"|DCN parallelism requested but only one slice|must be divisible by \d+, the combined size of the mesh axes",
    ),
    (
        "batch",
        r"Batch dimension should be shardable|batch size .* must be divisible|divisible by the number of vocab tiles"
        r"|\['(?:inputs|targets)\w*'\] was given the sharding .* implies that array axis",
    ),
    ("sharding", r"implies that array axis|evenly divi|is not divisible by"),
    # JAX's own attention kernel, whose blocks are MaxText's sa_block_*.
    ("argument", r"_block_size=\d+ should divide \w*seq_len"),
)
"""The first that is found decides: words about a flag or the disk stand beside words about what then went wrong."""

_BY_PLACE = {
    "get_topology_desc": "topology",
    "get_system_characteristics": "topology",
    "create_device_mesh": "sharding",
    "maxtext_arguments": "argument",
    "check_keys": "argument",
    "initialize": "argument",
}
"""Function in which an exception came up, for words that no pattern knows: MaxText's asserts are many."""

_REFUSALS = (ValueError, AssertionError, NotImplementedError, KeyError)
"""What MaxText's own code raises for arguments that it cannot work with."""

_LOG_PREFIX = re.compile(r"^(?:ERROR: |[EWIF]\d{4} [\d:.]+\s+\d+ )")
_FATAL = re.compile(r"^F\d{4} [\d:.]+\s+\d+ (\S+\] .*)", re.MULTILINE)
"""The line with which libtpu ends its process; those behind it tell how it ends."""


def of_exception(error: BaseException) -> dict[str, str]:
    """`{"kind", "said"}` of what ended a compilation in Python."""
    error = _cause(error)
    said = _words(error)
    kind = _kind_of_words(f"{type(error).__name__}: {said}")
    said = _total_first(said) if kind == "memory" else said
    if not kind and isinstance(error, OSError):
        kind = "other"  # this machine's, wherever it came up
    return {"kind": kind or _kind_of_place(error) or "other", "said": _short(said)}


def of_exit(status: int, log: str) -> dict[str, str]:
    """The same of a process that ended without a word in the protocol.

    Args:
        status: as os.waitpid gives it.
        log: the end of what it wrote to its standard output and error.
    """
    number = _signal(status)
    if number == signal.SIGKILL:
        return {"kind": "killed", "said": "the kernel ended the compiler's process (SIGKILL)"}
    for line in reversed(log.splitlines()):
        kind = _kind_of_words(line)
        if kind:
            return {"kind": kind, "said": _short(_LOG_PREFIX.sub("", line.strip()))}
    fatal = _FATAL.search(log)
    if fatal:
        return {"kind": "other", "said": _short(f"libtpu has ended its process: {fatal[1]}")}
    how = signal.Signals(number).name if number else f"exit status {status >> 8}"
    last = [line.strip() for line in log.splitlines() if any(letter.isalpha() for letter in line)][-3:]
    return {"kind": "other", "said": _short(f"{how}: {' '.join(last) or 'it said nothing'}")}


def used_hbm_bytes(said: str) -> int | None:
    """The total that libtpu found too large for HBM, to its two decimals; None where it names none."""
    found = _USED.search(said)
    return round(float(found[1]) * 1024 ** "BKMGT".index(found[2])) if found else None


def _total_first(said: str) -> str:
    """The line with the total before the rest, which lists allocations and is cut."""
    line = next((line.strip() for line in said.splitlines() if _USED.search(line)), "")
    return said if not line or said.startswith(line) else f"{line}\n{said}"


def _signal(status: int) -> int:
    return status & 0x7F


def _kind_of_words(text: str) -> str:
    return next((kind for kind, pattern in _BY_WORDS if re.search(pattern, text, re.DOTALL)), "")


def _kind_of_place(error: BaseException) -> str:
    """By the innermost function of the traceback that is in the table; else by whether MaxText itself refuses."""
    frames = list(_frames(error))
    names = [frame.f_code.co_name for frame in frames]
    kind = next((_BY_PLACE[name] for name in reversed(names) if name in _BY_PLACE), "")
    maxtexts = bool(frames) and str(frames[-1].f_globals.get("__name__", "")).split(".")[0] == "maxtext"
    return kind or ("argument" if maxtexts and isinstance(error, _REFUSALS) else "")


def _frames(error: BaseException) -> Iterator[Any]:
    traceback = error.__traceback__
    while traceback:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _cause(error: BaseException) -> BaseException:
    """MaxText turns a mistake in its configuration into exit status 2, raised while it handles the real one."""
    if isinstance(error, SystemExit) and error.__context__ is not None:
        return error.__context__
    return error


def _words(error: BaseException) -> str:
    if hasattr(error, "errors") and callable(error.errors):  # pydantic's, one entry for each argument
        told = [f"{'.'.join(map(str, e['loc']))}={e['input']!r}: {e['msg']}" for e in error.errors()]
        # A rule about several arguments has no place, and its input is all of the configuration.
        whole = [str(e["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ") for e in error.errors()]
        return "; ".join(t if e["loc"] else w for t, w, e in zip(told, whole, error.errors(), strict=True))
    said = _SHARDING.sub(r"\1", str(error).strip())
    if said:
        return said
    frames = list(_frames(error))
    where = f" in {frames[-1].f_code.co_name}" if frames else ""
    return f"{type(error).__name__}{where}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
