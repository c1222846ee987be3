"""A folder as GCS FUSE shows a flat bucket: one owner and mode for all, and no folder is renamed.

In a bucket without a hierarchical namespace a folder is but a prefix of object names. gcsfuse renames one object by
object, and only as many as the option rename-dir-limit allows: with its default of 0 a folder that holds anything
cannot be renamed at all (EMFILE, as gcsfuse 3 answers).

    python -m tests.gke.flat_bucket SOURCE TARGET OPTIONS     serves one mount until it is unmounted
"""

import ctypes
import errno
import json
import os
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.gke import fuse, mounts
from tests.gke.fuse import Attributes, Request, names
from tests.gke.gcsfuse_options import MountOptions

_SET_SIZE, _SET_MODIFIED, _SET_HANDLE, _SET_MODIFIED_NOW = 1 << 3, 1 << 5, 1 << 6, 1 << 8
_PR_SET_PDEATHSIG = 1


class FlatMounts:
    """The mounts of one node, each with its process; none of them outlives the node."""

    def __init__(self) -> None:
        self._processes: dict[Path, subprocess.Popen[str]] = {}

    def mount(self, bucket: str, source: Path, target: Path, options: MountOptions) -> None:
        """Returns when the mount is there. Raises OSError with what the process said."""
        command = [sys.executable, "-m", "tests.gke.flat_bucket", bucket, str(source), str(target)]
        process = subprocess.Popen(
            [*command, json.dumps(asdict(options))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line != "mounted":
            rest = process.stdout.read().strip()
            process.wait()
            raise OSError(errno.EIO, f"the flat bucket {bucket} is not served: {(rest or line).splitlines()[-1:]}")
        self._processes[target] = process

    def ended(self, target: Path) -> None:
        """After the unmount: waits for the process, which ends with its mount."""
        process = self._processes.pop(target, None)
        if process is not None:
            process.wait()

    def stop(self) -> None:
        """Unmounts all, also those that are in use."""
        for target in list(self._processes):
            while mounts.mounted(target):
                mounts.unmount(target, mounts.DETACH)
            self._processes[target].terminate()
            self.ended(target)


class FlatBucket:
    """The operations on the folder. Nodes are paths below it; a renamed folder takes what is below it along.

    Nodes are kept until the unmount: a test's mount sees some thousands of them.
    """

    def __init__(self, source: Path, options: MountOptions) -> None:
        self._options = options
        self._paths = {fuse.ROOT: source}
        self._nodes = {source: fuse.ROOT}
        self._next = fuse.ROOT + 1
        # By file handle: the node that it was opened on.
        self._opened: dict[int, int] = {}
        # By file handle: the listing that an open folder was opened with.
        self._listings: dict[int, list[tuple[int, str, int]]] = {}
        self._next_listing = 1

    def handlers(self) -> dict[int, fuse.Handler]:
        return {
            fuse.INIT: fuse.initialized,
            fuse.DESTROY: lambda _: b"",
            fuse.LOOKUP: lambda request: self._entry(self._child(request, names(request.body)[0])),
            fuse.FORGET: lambda _: b"",
            fuse.BATCH_FORGET: lambda _: b"",
            fuse.INTERRUPT: lambda _: b"",
            fuse.GETATTR: self._get_attributes,
            fuse.SETATTR: self._set_attributes,
            fuse.READLINK: lambda request: os.fsencode(self._path(request.node).readlink()),
            fuse.SYMLINK: self._symlink,
            fuse.MKNOD: self._make_node,
            fuse.MKDIR: self._make_folder,
            fuse.UNLINK: self._unlink,
            fuse.RMDIR: self._remove_folder,
            fuse.RENAME: lambda request: self._rename(request, 8),
            fuse.RENAME2: self._rename_with_flags,
            fuse.OPEN: self._open,
            fuse.CREATE: self._create,
            fuse.READ: self._read,
            fuse.WRITE: self._write,
            fuse.STATFS: self._statistics,
            fuse.FLUSH: lambda _: b"",
            fuse.FSYNC: self._sync,
            fuse.RELEASE: self._release,
            fuse.OPENDIR: self._open_folder,
            fuse.READDIR: self._read_folder,
            fuse.RELEASEDIR: self._release_folder,
            fuse.FSYNCDIR: lambda _: b"",
        }

    def _get_attributes(self, request: Request) -> bytes:
        flags, _, handle = struct.unpack_from("<IIQ", request.body)
        if not flags & 1 and self._nodes.get(self._paths[request.node]) != request.node:
            # A file that was removed while it was open, as temporary files are.
            handle = next((handle for handle, node in self._opened.items() if node == request.node), None)
            flags = 0 if handle is None else 1
        status = os.fstat(handle) if flags & 1 else self._path(request.node).lstat()
        return self._attributes_answer(request.node, status)

    def _set_attributes(self, request: Request) -> bytes:
        """Sizes and times; changes of mode and owner are taken and have no effect, as in gcsfuse."""
        valid, _, handle, size, _, _, modified, _, _, modified_rest, *_ = struct.unpack_from("<2I6Q8I", request.body)
        target = handle if valid & _SET_HANDLE else self._path(request.node)
        if valid & _SET_SIZE:
            os.truncate(target, size)
        if valid & _SET_MODIFIED_NOW:
            os.utime(target)
        elif valid & _SET_MODIFIED:
            time = modified * 10**9 + modified_rest
            os.utime(target, ns=(time, time))
        status = os.fstat(handle) if valid & _SET_HANDLE else self._path(request.node).lstat()
        return self._attributes_answer(request.node, status)

    def _symlink(self, request: Request) -> bytes:
        name, link = names(request.body)
        path = self._child(request, name)
        path.symlink_to(link)
        return self._entry(path)

    def _make_node(self, request: Request) -> bytes:
        (mode,) = struct.unpack_from("<I", request.body)
        if not stat.S_ISREG(mode):
            raise OSError(errno.ENOTSUP, "buckets hold regular files only")
        path = self._child(request, names(request.body[16:])[0])
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        return self._entry(path)

    def _make_folder(self, request: Request) -> bytes:
        path = self._child(request, names(request.body[8:])[0])
        path.mkdir()
        return self._entry(path)

    def _unlink(self, request: Request) -> bytes:
        path = self._child(request, names(request.body)[0])
        path.unlink()
        self._nodes.pop(path, None)
        return b""

    def _remove_folder(self, request: Request) -> bytes:
        path = self._child(request, names(request.body)[0])
        path.rmdir()
        self._nodes.pop(path, None)
        return b""

    def _rename_with_flags(self, request: Request) -> bytes:
        _, flags, _ = struct.unpack_from("<QII", request.body)
        if flags:
            raise OSError(errno.EINVAL, "no exchange, and no rename that keeps what is there")
        return self._rename(request, 16)

    def _rename(self, request: Request, skip: int) -> bytes:
        (new_parent,) = struct.unpack_from("<Q", request.body)
        old_name, new_name = names(request.body[skip:])
        old, new = self._child(request, old_name), self._path(new_parent) / new_name
        if stat.S_ISDIR(old.lstat().st_mode):
            limit = self._options.rename_dir_limit
            if sum(1 for _ in old.rglob("*")) > limit:
                raise OSError(errno.EMFILE, f"too many objects to be renamed: rename-dir-limit is {limit}")
        old.rename(new)
        self._nodes.pop(new, None)
        for path, node in list(self._nodes.items()):
            if path == old or old in path.parents:
                moved = new / path.relative_to(old)
                del self._nodes[path]
                self._nodes[moved], self._paths[node] = node, moved
        return b""

    def _open(self, request: Request) -> bytes:
        (flags,) = struct.unpack_from("<I", request.body)
        # The kernel appends by itself: it sends each write with its place.
        flags &= ~(os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_DIRECT)
        return self._handle(os.open(self._path(request.node), flags | os.O_CLOEXEC), request.node)

    def _create(self, request: Request) -> bytes:
        (flags,) = struct.unpack_from("<I", request.body)
        path = self._child(request, names(request.body[16:])[0])
        flags = (flags | os.O_CREAT | os.O_CLOEXEC) & ~(os.O_APPEND | os.O_DIRECT)
        handle = os.open(path, flags, 0o644)
        answer = self._entry(path)
        return answer + self._handle(handle, self._nodes[path])

    def _read(self, request: Request) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", request.body)
        return os.pread(handle, size, offset)

    def _write(self, request: Request) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", request.body)
        return struct.pack("<II", os.pwrite(handle, request.body[40 : 40 + size], offset), 0)

    def _statistics(self, _: Request) -> bytes:
        found = os.statvfs(self._paths[fuse.ROOT])
        blocks = (found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree)
        return struct.pack("<5Q10I", *blocks, found.f_bsize, found.f_namemax, found.f_frsize, *[0] * 7)

    def _sync(self, request: Request) -> bytes:
        os.fsync(struct.unpack_from("<Q", request.body)[0])
        return b""

    def _release(self, request: Request) -> bytes:
        (handle,) = struct.unpack_from("<Q", request.body)
        del self._opened[handle]
        os.close(handle)
        return b""

    def _open_folder(self, request: Request) -> bytes:
        handle, self._next_listing = self._next_listing, self._next_listing + 1
        self._listings[handle] = list(_listing(self._path(request.node)))
        return _opened(handle)

    def _read_folder(self, request: Request) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", request.body)
        return fuse.directory(iter(self._listings[handle]), offset, size)

    def _release_folder(self, request: Request) -> bytes:
        del self._listings[struct.unpack_from("<Q", request.body)[0]]
        return b""

    def _handle(self, handle: int, node: int) -> bytes:
        self._opened[handle] = node
        return _opened(handle)

    def _entry(self, path: Path) -> bytes:
        status = path.lstat()
        if path not in self._nodes:
            self._nodes[path], self._paths[self._next] = self._next, path
            self._next += 1
        return fuse.entry(self._nodes[path], self._attributes(status))

    def _attributes_answer(self, node: int, status: os.stat_result) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._attributes(status).packed()

    def _attributes(self, status: os.stat_result) -> Attributes:
        options = self._options
        folder = stat.S_ISDIR(status.st_mode)
        permissions = options.dir_mode if folder else options.file_mode
        mode = stat.S_IFMT(status.st_mode) | permissions
        return Attributes(status.st_ino, status, mode, options.uid, options.gid)

    def _child(self, request: Request, name: str) -> Path:
        return self._path(request.node) / name

    def _path(self, node: int) -> Path:
        """Raises ESTALE for a node that was removed, or whose name another file has now."""
        path = self._paths[node]
        if self._nodes.get(path) != node:
            raise OSError(errno.ESTALE, "the file is gone")
        return path


def _opened(handle: int) -> bytes:
    return struct.pack("<QII", handle, 0, 0)


def _listing(path: Path) -> Iterator[tuple[int, str, int]]:
    status = path.stat()
    yield status.st_ino, ".", stat.S_IFDIR >> 12
    yield status.st_ino, "..", stat.S_IFDIR >> 12
    for found in os.scandir(path):
        yield found.inode(), found.name, stat.S_IFMT(found.stat(follow_symlinks=False).st_mode) >> 12


def main(bucket: str, source: str, target: str, options: str) -> int:
    # A node that is killed takes its mounts' processes along.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    device = fuse.mount_device(bucket, Path(target), json.loads(options)["read_only"])
    print("mounted", flush=True)
    fuse.serve(device, FlatBucket(Path(source), MountOptions(**json.loads(options))).handlers())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
