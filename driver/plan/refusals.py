"""What MaxText, JAX, libtpu or this machine said in place of an answer, as one message with the rule and the fix.

The kinds are those of trainer/compile_errors.py, which tells the words apart.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any

from driver.errors import FAILED, USAGE, DriverError
from driver.plan.verdict import Answer, Case, Refusal, Verdict, devices_per_slice

IN_THE_VALUES = frozenset({"argument", "sharding", "batch", "topology", "flag"})
"""Kinds that the values are at fault for: the run would fail of them on the cluster too."""

OF_THIS_MACHINE = frozenset({"killed", "disk", "other"})
"""Kinds that say nothing about the run."""

_GIB_PER_COMPILATION = 4
_NEAREST = 3
_UNKNOWN_FLAG = re.compile(r"[Uu]nknown (?:command[- ]line )?flags?:? '?-*(\w+)")
_FLAG_VALUE = re.compile(r"[Ii]llegal value '(.*?)' specified for flag '(\w+)'")
_UNKNOWN_ARGUMENT = re.compile(r"job\.maxtext\.(\w+): MaxText has no such argument(?:; did you mean (\w+)\?)?")
_CHOICES = re.compile(r"(\w+)='([^']*)': Input should be ((?:'[^']*'(?:, | or )?)+)")
_FUSION = "xla_tpu_enable_async_collective_fusion"
_FUSED_GATHER = f"{_FUSION}_fuse_all_gather"

_HEADS: Mapping[str, str] = {
    "argument": "MaxText refuses the arguments",
    "sharding": "The sharding does not fit the chips",
    "batch": "The batch does not divide",
    "topology": "The compiler does not know the slice",
    "flag": "libtpu refuses its flags",
    "memory": "It does not fit",
    "killed": "The compiler's process was ended, most likely for want of memory on this machine",
    "disk": "There is no room on the disk for the compiler",
    "other": "The compiler failed",
}


def as_error(run: Mapping[str, Any], case: Case, refusal: Refusal) -> DriverError:
    """One message for the user. The exit code is USAGE where the values are at fault."""
    rule, fix = _RULES[refusal.kind](run, case, refusal.said)
    code = USAGE if refusal.kind in IN_THE_VALUES else FAILED
    return DriverError(f"{_HEADS[refusal.kind]}: {shortened(refusal.said)}", rule=rule, fix=fix, exit_code=code)


def of_this_machine(refusal: Refusal | None) -> bool:
    return refusal is not None and refusal.kind in OF_THIS_MACHINE


def unfinished(run: Mapping[str, Any], answer: Answer, says: str = "") -> str:
    """What is said of a compilation that this machine has ended after its memory report, in one line.

    says: what was compiled, where it is one of several; else the number of slices is named.
    """
    assert answer.refusal
    error = as_error(run, answer.case, answer.refusal)
    what = says or f"{_where(answer.case)[0].lower()}{_where(answer.case)[1:]}"
    return " ".join(f"Not compiled to the end: {what}. {error.found.rstrip('.')}. What helps: {error.fix}.".split())


def after_report(verdict: Verdict) -> str:
    """Why what seems to have room by its report does not fit, in one line."""
    said = " ".join(verdict.refusal.said.split()) if verdict.refusal else ""
    return f"{_where(verdict.case)} the compiler rejects the program after its memory report: {said}"


def shortened(said: str) -> str:
    """The words without a list of all that would have been right: the nearest of it."""

    def nearest(found: re.Match[str]) -> str:
        known = re.findall(r"'([^']*)'", found[3])
        if len(known) <= 2 * _NEAREST:
            return found[0]
        near = difflib.get_close_matches(found[2], known, n=_NEAREST, cutoff=0.5) or known[:_NEAREST]
        return f"{found[1]}='{found[2]}': not one of the {len(known)} that MaxText knows; near are {', '.join(near)}"

    return _CHOICES.sub(nearest, said)


def _argument(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    rule = f"job.maxtext has the arguments of MaxText {run['versions']['maxtext']}."
    unknown = _UNKNOWN_ARGUMENT.search(said)
    if unknown:
        value = _text(case.arguments(run).get(unknown[1]))
        right = f",job.maxtext.{unknown[2]}={value}" if unknown[2] else ""
        return rule, f"--set job.maxtext.{unknown[1]}=null{right}"
    choice = _CHOICES.search(said)
    if choice:
        known = re.findall(r"'([^']*)'", choice[3])
        near = difflib.get_close_matches(choice[2], known, n=1, cutoff=0.5)
        return rule, f"--set job.maxtext.{choice[1]}={near[0] if near else known[0]}"
    overridden = re.search(r"override_model_config", said)
    if overridden:
        return rule, "--set job.maxtext.override_model_config=true, if the model is to be another one"
    return rule, "another value for what is named, in job.maxtext; null takes an argument away"


def _sharding(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    rule = (
        f"The ici_*_parallelism axes multiply to the {devices_per_slice(run)} devices of a slice, the dcn_*_parallelism"
        f" axes to the number of slices ({case.slices}), and what they shard divides by them."
    )
    kind = "dcn" if "DCN" in said else "ici"
    axis = "dcn_data_parallelism" if kind == "dcn" else "ici_fsdp_parallelism"
    return (
        rule,
        f"--set job.maxtext.{axis}=-1, which takes what the other {kind}_ axes leave, or correct the named axis",
    )


def _batch(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    devices = devices_per_slice(run) * case.slices
    size = case.arguments(run).get("per_device_batch_size", "MaxText's default")
    rule = (
        f"per_device_batch_size ({size}) times {devices} devices is a whole number of sequences, which divides by the"
        " product of the axes that shard the batch (data, fsdp, fsdp_transpose, expert)."
    )
    return rule, "--set job.maxtext.per_device_batch_size=1 or another whole number"


def _topology(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    tpu = run["tpu"]
    return (
        f"tpu.type and tpu.topology ({tpu['type']} {tpu['topology']}) name a slice that MaxText and libtpu have.",
        "another tpu.topology, or another tpu.type",
    )


def _flag(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    rule = "job.libtpuFlags has flags of the libtpu that compiles, under their whole names, with values that they take."
    unknown, value = _UNKNOWN_FLAG.search(said), _FLAG_VALUE.search(said)
    if unknown:
        return rule, f"--set job.libtpuFlags.{unknown[1]}=null, or its right name"
    if value:
        return rule, f"--set job.libtpuFlags.{value[2]}=null, or a value that it takes"
    if "Continuation fusion" in said:
        if run["libtpuFlags"].get(_FUSED_GATHER):
            # libtpu 0.0.46, 0.0.50.1 and 0.0.52; the upstream tutorial has both flags.
            rule = f"{_FUSED_GATHER} and xla_enable_async_all_gather exclude each other."
            return rule, f"--set job.libtpuFlags.{_FUSED_GATHER}=null"
        return rule, f"--set job.libtpuFlags.{_FUSION}=false"
    if "vmem" in said:
        return (
            "xla_tpu_scoped_vmem_limit_kib is the scratch memory of a kernel, of which there is only so much.",
            "--set job.libtpuFlags.xla_tpu_scoped_vmem_limit_kib=98304",
        )
    return rule, "null for the flag that is named, in job.libtpuFlags"


def _memory(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    tpu = run["tpu"]
    return (
        f"A chip of type {tpu['type']} has {tpu['hbmGiBPerChip']:g} GiB for a program.",
        "driver plan with the same values says which single changes make it fit",
    )


def _killed(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    return (
        f"A compilation of a large model takes some {_GIB_PER_COMPILATION} GiB of memory, and several run at once.",
        "driver plan --workers 1, close other programs, or take a machine with more memory; what was compiled is kept",
    )


def _disk(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    return (
        "The compiler writes its dumps into a temporary folder, and results are kept in the user's cache.",
        "free some there, or set TMPDIR (and XDG_CACHE_HOME for the cache) to a folder on a disk that has room",
    )


def _other(run: Mapping[str, Any], case: Case, said: str) -> tuple[str, str]:
    return (
        "These words are of no value in particular that is known here, and say nothing about memory.",
        "take back the last change to job.maxtext or job.libtpuFlags; driver plan --install if nothing compiles",
    )


_RULES = {
    "argument": _argument,
    "sharding": _sharding,
    "batch": _batch,
    "topology": _topology,
    "flag": _flag,
    "memory": _memory,
    "killed": _killed,
    "disk": _disk,
    "other": _other,
}


def _where(case: Case) -> str:
    return "On one slice" if case.slices == 1 else f"On {case.slices} slices"


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else "VALUE" if value is None else str(value)
