"""Files that a plan writes at its end, some hours after they were named: what speaks against one is told before the
work, and none is ever half written."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from driver import resources
from driver.errors import FAILED, USAGE, DriverError


def require(files: Mapping[str, Path], inputs: Iterable[Path]) -> None:
    """Refuses what could not be written, or is not to be overwritten.

    files: by the option that names it. inputs: what the plan reads.
    Raises a DriverError.
    """
    kept = [*inputs, *resources.values_dir().glob("*.yaml")]
    for option, file in files.items():
        _require(option, file, kept)
    if len(files) > 1 and len({file.resolve() for file in files.values()}) == 1:
        raise _unwritable(" and ".join(files), next(iter(files.values())), "they are two files", "another file for one")


def _require(option: str, file: Path, kept: Iterable[Path]) -> None:
    folder = file.resolve().parent
    for one in kept:
        if _same(file, one):
            raise DriverError(
                f"{option} {file} would overwrite {one}, which is one of the values files or profiles.",
                rule="What is written has only what differs from the values, and goes after them.",
                fix=f"another file: {option} {file.with_name(f'{file.stem}-plan{file.suffix}')}",
                exit_code=USAGE,
            )
    if file.exists() and not file.is_file():
        return  # /dev/stdout, a pipe
    if not folder.is_dir():
        raise _unwritable(option, file, f"there is no folder {folder}", f"mkdir -p {folder}, or another file")
    if not os.access(folder, os.W_OK | os.X_OK) or (file.exists() and not os.access(file, os.W_OK)):
        raise _unwritable(option, file, "you may not write there", "another file")


def write(option: str, file: Path, text: str) -> None:
    """Raises a DriverError where the disk is full, or the folder is gone by now."""
    real = file.resolve()  # a link stays one
    temporary = real.with_name(f".{real.name}.{os.getpid()}.new")
    try:
        if file.exists() and not real.is_file():
            file.write_text(text)  # /dev/stdout, a pipe
            return
        try:
            temporary.write_text(text)
            if real.exists():
                temporary.chmod(real.stat().st_mode & 0o7777)
            temporary.replace(real)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise _unwritable(option, file, said, "another file", exit_code=FAILED) from error


def _same(first: Path, second: Path) -> bool:
    if first.resolve() == second.resolve():
        return True
    return first.exists() and second.exists() and first.samefile(second)


def _unwritable(option: str, file: Path, why: str, fix: str, exit_code: int = USAGE) -> DriverError:
    return DriverError(
        f"{option} {file} cannot be written: {why}.",
        rule="It is written at the end, as a whole.",
        fix=fix,
        exit_code=exit_code,
    )
