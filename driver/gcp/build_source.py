"""What the trainer's image is built from: the few files that trainer/Dockerfile needs, the same bytes everywhere."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

from driver.errors import DriverError

FILES = ("Dockerfile", "requirements.txt")
"""The trainer's own files are not in the image: they come with each run."""


_UNPACK = """\
#!/usr/bin/env bash
set -euo pipefail
base64 --decode <<'ARCHIVE' | tar --extract --gzip
{archive}
ARCHIVE
"""


@dataclass(frozen=True)
class BuildSource:
    """A packed build context. archive: gzipped tar; hash: 16 hexadecimal digits of the names and contents."""

    archive: bytes
    hash: str

    def unpack_script(self) -> str:
        """A bash script that lays the files into the current folder.

        The source travels inside the build's request. An archive in Cloud Storage would need a bucket before there is
        one, a write permission for the caller, a read permission for the build, and a clean-up that an interrupted run
        leaves out. It is in a step's `script`, where Cloud Build replaces no $NAME and sets no limit of 10,000
        characters, as it does for `args`.
        """
        return _UNPACK.format(archive=textwrap.fill(base64.b64encode(self.archive).decode(), 120))


def pack(folder: Path) -> BuildSource:
    """The files of a trainer folder. Names, order, times, owners and modes are fixed, so that the same contents have
    the same hash on every machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(FILES):
            content = _read(folder / name)
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    # Of the tar and not of what gzip made of it: zlib's output is not the same in every version.
    content_hash = hashlib.sha256(packed.getvalue()).hexdigest()[:16]
    return BuildSource(gzip.compress(packed.getvalue(), mtime=0), content_hash)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DriverError(
            f"{file} cannot be read: {error.strerror}.",
            rule="The trainer's image is built from it.",
            fix="install maxtext-multislice again, from the wheel or with `pip install .` in a checkout",
        ) from None
