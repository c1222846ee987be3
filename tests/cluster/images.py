"""The container images of a test cluster, made without a container engine, and a containerd folder that holds them.

The trainer's image has what trainer/Dockerfile says, as far as CPUs need it: Debian, Python 3.12, the locked
requirements of the emulation, the user of Ray's images. The others hold one program each. All are imported once into a
containerd folder that is kept in the user's cache; each node of each cluster begins with a copy of it.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from driver import resources
from driver.local.environment import LOCK, trainer_python
from tests.cluster import containerd
from tests.cluster.machines import Machine
from tests.cluster.programs import Programs

TRAINER = "localhost/trainer:test"
OPERATOR = "localhost/kuberay-operator:test"
COREDNS = "localhost/coredns:test"
PAUSE = "localhost/pause:test"

_DEBIAN = "bookworm"
_PACKAGES = (
    *("bash", "ca-certificates", "wget"),  # KubeRay's probes run `bash -c "wget ..."`
    *(
        "libbz2-1.0",
        "libffi8",
        "liblzma5",
        "libncursesw6",
        "libreadline8",
        "libsqlite3-0",
        "libssl3",
        "libstdc++6",
        "zlib1g",
    ),
)
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
_PYTHON = "opt/python"
_SITE_PACKAGES = f"{_PYTHON}/lib/python3.12/site-packages"


@dataclass(frozen=True)
class Image:
    """user: of its processes, as in a Dockerfile. environment: of its processes. entrypoint: empty for a shell."""

    name: str
    root: Path
    entrypoint: tuple[str, ...] = ()
    user: str = "0:0"
    environment: Mapping[str, str] = field(default_factory=dict)


def containerd_folder(programs: Programs) -> Path:
    """The folder of a containerd that holds every image, unpacked. Made once for each content; never written to."""
    python = trainer_python()
    key = hashlib.sha256()
    for file in (Path(__file__), resources.trainer_dir() / LOCK, *programs.in_images):
        key.update(file.read_bytes() if file.suffix in (".py", ".txt") else str(file).encode())
    home = resources.cache_dir() / "cluster" / f"images-{key.hexdigest()[:12]}"
    if not home.exists():
        new = home.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        with _images(programs, python, new / "build") as images:
            machine = Machine.start("images")
            try:
                store = containerd.start(machine, new / "containerd", programs, pause=PAUSE)
                for image in images:
                    print(f"Importing {image.name}", flush=True)
                    archive = _pack(image, new / "build" / "image.tar")
                    store.import_image(archive)
                    archive.unlink()
            finally:
                machine.end()
        (new / "containerd" / "root").rename(new / "root")
        shutil.rmtree(new / "containerd")
        new.rename(home)
        for old in home.parent.glob("images-*"):  # 4 GB each; nodes have copies of what they use
            if old != home:
                shutil.rmtree(old)
    return home / "root"


def copy_folder(source: Path, target: Path) -> None:
    """A copy of containerd's folder that shares the images' files: they are never written to, its databases are."""
    subprocess.run(["cp", "--archive", "--link", str(source), str(target)], check=True)
    for database in target.rglob("*.db"):
        content = database.read_bytes()
        database.unlink()
        database.write_bytes(content)


@contextmanager
def _images(programs: Programs, python: Path, scratch: Path) -> Iterator[list[Image]]:
    scratch.mkdir()
    try:
        environment = {
            "PATH": "/opt/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/home/ray",
            "LANG": "C.UTF-8",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        root = scratch / "trainer"
        _make_debian(root)
        _add_python(python, root)
        yield [
            Image(TRAINER, root, user="1000:100", environment=environment),
            _one_program(scratch, OPERATOR, programs.operator, user="65532:65532"),
            _one_program(scratch, COREDNS, programs.coredns),
            _one_program(scratch, PAUSE, programs.pause),
        ]
    finally:
        shutil.rmtree(scratch)


def _make_debian(root: Path) -> None:
    print(f"Making a Debian {_DEBIAN} for the trainer's image", flush=True)
    options = [f"--include={','.join(_PACKAGES)}", "--mode=root", '--aptopt=Apt::Install-Recommends "false"']
    options += [f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT]
    made = subprocess.run(
        ["mmdebstrap", "--variant=essential", *options, _DEBIAN, str(root)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise RuntimeError(f"mmdebstrap failed:\n{made.stderr.strip()}")
    with (root / "etc/passwd").open("a") as users:
        users.write("ray:x:1000:100::/home/ray:/bin/bash\n")
    home = root / "home/ray"
    home.mkdir()
    shutil.chown(home, 1000, 100)
    # A login shell has Debian's PATH, and KubeRay may start Ray from one.
    for program in ("python", "python3", "ray"):
        (root / "usr/local/bin" / program).symlink_to(f"/{_PYTHON}/bin/{program}")


def _add_python(python: Path, root: Path) -> None:
    """Python and the packages of the emulation's environment, which is installed from the same lock."""
    print("Copying the trainer's environment for its image", flush=True)
    venv = python.parents[1]
    base = Path(subprocess.check_output([python, "-c", "import sys; print(sys.base_prefix)"], text=True).strip())
    skipped = shutil.ignore_patterns("test", "site-packages", "config-3.12-*", "*.a")
    shutil.copytree(base, root / _PYTHON, symlinks=True, ignore=skipped)
    shutil.copytree(venv / "lib/python3.12/site-packages", root / _SITE_PACKAGES, symlinks=True)
    binaries = root / _PYTHON / "bin"
    for script in (venv / "bin").iterdir():
        first, _, rest = script.read_bytes().partition(b"\n") if script.is_file() else (b"", b"", b"")
        if first == f"#!{python}".encode():
            (binaries / script.name).write_bytes(f"#!/{_PYTHON}/bin/python3.12\n".encode() + rest)
            (binaries / script.name).chmod(0o755)
    for link in ("python", "python3"):
        (binaries / link).unlink(missing_ok=True)
        (binaries / link).symlink_to("python3.12")
    # Where it is a shared library.
    (root / "etc/ld.so.conf.d/python.conf").write_text(f"/{_PYTHON}/lib\n")
    subprocess.run(["ldconfig", "-r", str(root)], check=True)


def _one_program(scratch: Path, name: str, program: Path, user: str = "0:0") -> Image:
    layer = scratch / program.name
    (layer / "etc").mkdir(parents=True)
    (layer / "tmp").mkdir(mode=0o1777)
    shutil.copy2(program, layer / program.name)
    return Image(name, layer, (f"/{program.name}",), user)


def _pack(image: Image, archive: Path) -> Path:
    """Writes an image of one layer as `docker save` does: layer, configuration, manifest."""
    layer = archive.with_name("layer.tar")
    subprocess.run(
        ["tar", "--create", f"--file={layer}", f"--directory={image.root}", "--numeric-owner", "."], check=True
    )
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": [f"{name}={value}" for name, value in image.environment.items()],
            "User": image.user,
            "WorkingDir": image.environment.get("HOME", "/"),
            **({"Entrypoint": image.entrypoint} if image.entrypoint else {"Cmd": ["/bin/bash"]}),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "tests/cluster/images.py"}],
    }
    blob = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(blob).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [image.name], "Layers": [layer.name]}]
    with tarfile.open(archive, "w") as tar:
        for name, content in ((config_name, blob), ("manifest.json", json.dumps(manifest).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        tar.add(layer, arcname=layer.name)
    layer.unlink()
    return archive
