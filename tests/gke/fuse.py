"""The kernel's FUSE protocol: mounting without libfuse, and messages in and out (linux/fuse.h, version 7.31)."""

import errno
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.gke.mounts import NO_DEVICES, NO_SET_UID, READ_ONLY, mount

VERSION = (7, 31)
ROOT = 1
MAX_WRITE = 1 << 20
PAGE = 4096
# The kernel asks for room for a whole write and its headers.
READ_SIZE = MAX_WRITE + PAGE

LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK = 1, 2, 3, 4, 5, 6
MKNOD, MKDIR, UNLINK, RMDIR, RENAME = 8, 9, 10, 11, 12
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 14, 15, 16, 17, 18, 20
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR = 25, 26, 27, 28, 29, 30
CREATE, INTERRUPT, DESTROY, BATCH_FORGET, RENAME2 = 35, 36, 38, 42, 45
UNANSWERED = frozenset((FORGET, BATCH_FORGET, INTERRUPT))

# Flags of INIT: O_TRUNC comes with open, writes are longer than a page, and how many pages is told.
ATOMIC_TRUNCATE, BIG_WRITES, MAX_PAGES = 1 << 3, 1 << 5, 1 << 22

_HEADER = struct.Struct("<IIQQIIIHH")
_ANSWER = struct.Struct("<IiQ")
_INIT = struct.Struct("<IIIIHHIIHHI7I")
_ATTRIBUTES = struct.Struct("<6Q10I")
_ENTRY = struct.Struct("<4Q2I")
_DIRECTORY_ENTRY = struct.Struct("<QQII")


class Request(NamedTuple):
    """One message of the kernel: which operation, on which node, with which bytes after the header.

    The bytes are overwritten by the next message.
    """

    operation: int
    unique: int
    node: int
    body: memoryview


Handler = Callable[[Request], bytes]


@dataclass(frozen=True)
class Attributes:
    """What stat says, as the file system wants it seen."""

    number: int
    status: os.stat_result
    mode: int
    uid: int
    gid: int

    def packed(self) -> bytes:
        status = self.status
        times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
        seconds, rest = [time // 10**9 for time in times], [time % 10**9 for time in times]
        return _ATTRIBUTES.pack(
            *(self.number, status.st_size, status.st_blocks, *seconds, *rest),
            *(self.mode, status.st_nlink, self.uid, self.gid, 0, PAGE, 0),
        )


def mount_device(name: str, target: Path, read_only: bool) -> int:
    """Mounts a file system that whoever reads the returned file descriptor serves. Raises OSError."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    # The kernel checks modes and owners by what the file system says of its files, and lets others than root in.
    data = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    try:
        mount(name, target, "fuse", NO_SET_UID | NO_DEVICES | (READ_ONLY if read_only else 0), data)
    except OSError:
        os.close(device)
        raise
    return device


def serve(device: int, handlers: Mapping[int, Handler]) -> None:
    """Answers the kernel until the file system is unmounted.

    handlers: by operation. One that raises OSError answers with its number; what has none is not implemented.
    """
    buffer = bytearray(READ_SIZE)
    while True:
        try:
            length = os.readv(device, [buffer])
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                continue  # the request was taken back
            if error.errno == errno.ENODEV:
                return
            raise
        _, operation, unique, node, *_ = _HEADER.unpack_from(buffer)
        body = memoryview(buffer)[_HEADER.size : length]
        number, answer = _answer(Request(operation, unique, node, body), handlers)
        if operation in UNANSWERED:
            continue
        try:
            os.writev(device, [_ANSWER.pack(_ANSWER.size + len(answer), -number, unique), answer])
        except OSError as error:
            if error.errno != errno.ENOENT:  # whoever asked was interrupted meanwhile
                raise


def initialized(request: Request) -> bytes:
    """The answer to INIT."""
    major, _, read_ahead, offered = struct.unpack_from("<4I", request.body)
    flags = offered & (ATOMIC_TRUNCATE | BIG_WRITES | MAX_PAGES)
    if major != VERSION[0]:
        raise OSError(errno.EPROTO, f"the kernel speaks FUSE {major}")
    pages = MAX_WRITE // PAGE
    return _INIT.pack(*VERSION, read_ahead, flags, 16, 12, MAX_WRITE, 1, pages, 0, 0, *[0] * 7)


def entry(node: int, attributes: Attributes) -> bytes:
    """A node with its attributes. Nothing is cached: the bucket is changed through other mounts, too."""
    return _ENTRY.pack(node, 0, 0, 0, 0, 0) + attributes.packed()


def directory(entries: Iterator[tuple[int, str, int]], offset: int, size: int) -> bytes:
    """As many (inode number, name, type of file) as fit into size bytes, from an offset on."""
    result = b""
    for position, (number, name, kind) in enumerate(entries):
        if position < offset:
            continue
        encoded = os.fsencode(name)
        record = _DIRECTORY_ENTRY.pack(number, position + 1, len(encoded), kind) + encoded
        record += bytes(-len(record) % 8)
        if len(result) + len(record) > size:
            break
        result += record
    return result


def names(body: memoryview) -> list[str]:
    """The zero-terminated names that a request ends with."""
    return [os.fsdecode(name) for name in bytes(body).split(b"\0")[:-1]]


def _answer(request: Request, handlers: Mapping[int, Handler]) -> tuple[int, bytes]:
    handler = handlers.get(request.operation)
    if handler is None:
        return errno.ENOSYS, b""
    try:
        return 0, handler(request)
    except OSError as error:
        return error.errno or errno.EIO, b""
