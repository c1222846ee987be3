"""The compiler's environment: where it can be, what it holds, and what is said where it cannot."""

import platform
import re
import shutil
import sys
import venv
from pathlib import Path

import pytest

from driver import locked_environment, resources
from driver.errors import DriverError
from driver.plan import environment
from tests.run_files import content

TRAINER = resources.trainer_dir()


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "arm64"), ("Linux", "aarch64"), ("Darwin", "x86_64")])
def test_elsewhere_than_on_linux_x86_64_the_message_has_the_container_command(system, machine, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(DriverError, match=f"needs Linux on x86-64; this is {system} on {machine}") as raised:
        environment.compiler_python()
    assert "docker run --rm -it --platform linux/amd64" in raised.value.fix


def test_it_is_not_installed_before_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not environment.is_installed()


def test_an_installation_that_failed_is_begun_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        locked_environment, "install", lambda lock, venv, name, fix: (_ for _ in ()).throw(DriverError("no network"))
    )
    with pytest.raises(DriverError, match="no network"):
        environment.compiler_python()
    assert not environment.is_installed()
    monkeypatch.setattr(locked_environment, "install", lambda lock, venv, name, fix: None)
    python = environment.compiler_python()
    assert environment.is_installed()
    assert python.is_relative_to(tmp_path)


def test_a_python_without_libtpu_cannot_compile(tmp_path):
    with pytest.raises(DriverError, match="cannot compile for TPUs: .*PackageNotFoundError") as raised:
        environment.versions(Path(sys.executable))
    assert "requirements-plan.txt" in raised.value.fix


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """The site-packages of an environment in the cache that is complete, with a lock of two packages."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trainer = tmp_path / "trainer"
    trainer.mkdir()
    (trainer / environment.LOCK).write_text("# a lock\nJax==0.11.1\nlibtpu[x]==0.0.46\n    # via jax\n")
    monkeypatch.setattr(resources, "trainer_dir", lambda: trainer)
    environment._folder().mkdir(parents=True)
    (environment._folder() / "complete").touch()
    return virtual_environment(environment._folder() / "venv")


def virtual_environment(folder: Path) -> Path:
    venv.create(folder)
    (site_packages,) = folder.glob("lib/python3*/site-packages")
    for name, version in (
        ("jax", "0.11.1"),
        ("libtpu", "0.0.46"),
        ("maxtext", "0.2.5"),
        ("jaxlib", "1"),
        ("flax", "1"),
    ):
        info = site_packages / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (site_packages / f"{name}.py").write_text("x = 1\n")
        (info / "RECORD").write_text(f"{name}.py,sha256=x,6\n{info.name}/RECORD,,\n")
    return site_packages


def damaged(how: str, site_packages: Path) -> None:
    if how == "missing":
        (site_packages / "libtpu.py").unlink()
    elif how == "cut off":
        (site_packages / "libtpu.py").write_text("x")
    elif how == "another version":
        (site_packages / "libtpu-0.0.46.dist-info" / "METADATA").write_text("Name: libtpu\nVersion: 0.0.47\n")
    elif how == "no package":
        shutil.rmtree(site_packages / "libtpu-0.0.46.dist-info")
    else:
        shutil.rmtree(site_packages.parents[2])


@pytest.mark.parametrize("how", ["missing", "cut off", "another version", "no package", "no Python"])
def test_an_environment_that_is_damaged_is_set_up_anew(how, installed, monkeypatch, capsys):
    made: list[Path] = []
    monkeypatch.setattr(locked_environment, "install", lambda lock, venv, name, fix: made.append(venv))
    assert environment.install() is False
    damaged(how, installed)
    assert environment.install() is True
    assert made == [environment._folder() / "venv"]
    assert environment.is_installed()
    assert "libtpu" in capsys.readouterr().err or how == "no Python"


def test_a_file_that_the_site_has_added_to_is_no_damage(installed):
    (installed / "jax.py").write_text("x = 1\n# the site's own certificate\n")
    environment.verify(environment._python())


def test_the_digest_of_a_given_environment_is_of_all_its_packages(tmp_path):
    site_packages = virtual_environment(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    before, lasting = environment.packages(python)
    assert lasting
    tokamax = site_packages / "tokamax-1.dist-info"
    tokamax.mkdir()
    (tokamax / "METADATA").write_text("Name: tokamax\nVersion: 1\n")
    assert environment.packages(python)[0] != before


@pytest.mark.parametrize("package", ["maxtext-0.2.5", "jax-0.11.1"])
def test_what_was_installed_from_a_folder_may_change_under_its_version(package, tmp_path):
    site_packages = virtual_environment(tmp_path / "venv")
    (site_packages / f"{package}.dist-info" / "direct_url.json").write_text('{"dir_info": {"editable": true}}')
    assert environment.packages(tmp_path / "venv" / "bin" / "python")[1] is False


def test_maxtext_s_configurations_are_found_where_python_finds_it(tmp_path):
    site_packages = virtual_environment(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    (site_packages / "maxtext.py").unlink()
    source = tmp_path / "checkout" / "maxtext"
    (source / "configs").mkdir(parents=True)
    (site_packages / "editable.pth").write_text(f"{source.parent}\n")
    with pytest.raises(DriverError, match=r"there is no .*base\.yml"):
        environment.maxtext_configs(python)
    (source / "configs" / "base.yml").touch()
    assert environment.maxtext_configs(python) == source / "configs"


def test_a_run_for_another_maxtext_is_refused():
    environment.check_versions(content(), {"maxtext": "0.2.5"})
    with pytest.raises(DriverError, match="for MaxText 0.2.5, and the compiler's environment has 0.3.0"):
        environment.check_versions(content(), {"maxtext": "0.3.0"})


def test_the_compiler_runs_a_part_of_what_the_image_holds_in_the_same_versions():
    image, plan = _pins(TRAINER / "requirements.txt"), _pins(TRAINER / environment.LOCK)
    assert plan.items() <= image.items()
    assert {"maxtext", "jax", "libtpu"} <= plan.keys()
    assert "ray" not in plan


def test_the_lock_holds_what_its_source_asks_for():
    pins = _pins(TRAINER / environment.LOCK)
    source = (TRAINER / environment.LOCK).with_suffix(".in").read_text()
    assert set(re.findall(r"^([a-z][\w.-]*)", source, re.MULTILINE)) <= pins.keys()


def test_the_lock_names_exact_versions_and_no_address():
    lock = (TRAINER / environment.LOCK).read_text()
    assert all(re.match(r"[\w.-]+==\S+$|\s*#", line) for line in lock.splitlines())
    assert "://" not in lock


def _pins(lock: Path) -> dict[str, str]:
    """Package name, in its normal form, to version."""
    found = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", lock.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}
