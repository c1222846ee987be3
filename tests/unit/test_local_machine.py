"""What `driver local` asks of the machine before it starts anything."""

import socket
import stat
from pathlib import Path

import pytest

from driver.chart import find_helm
from driver.errors import DriverError
from driver.local import machine, training
from driver.local.environment import trainer_python

RUN = {"slices": {"min": 2, "max": 2}, "tpu": {"hostsPerSlice": 2}}


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(("version", "taken"), [("v3.16.0", "path"), ("v4.3.1", "path"), ("v3.15.4", "cache")])
def test_helm_is_the_one_on_the_path_if_it_is_new_enough(version, taken, tmp_path, monkeypatch):
    helms = {"path": program(tmp_path / "bin" / "helm", version)}
    helms["cache"] = program(tmp_path / "cache" / "maxtext-multislice" / "bin" / "helm", "v4.3.1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert find_helm() == str(helms[taken])


def test_without_helm_the_message_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DriverError, match="There is no helm on the PATH") as raised:
        find_helm()
    assert "scripts/fetch-tools helm" in raised.value.fix


def test_what_the_shell_holds_for_another_ray_is_not_passed_on(monkeypatch):
    for name in ("RAY_ADDRESS", "JAX_PLATFORMS", "XLA_FLAGS", "PYTHONDONTWRITEBYTECODE", "MEGASCALE_NUM_SLICES"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    environ = machine.environment(Path("/env/bin/python"), {"RAY_ADDRESS": "mine"})
    assert environ["RAY_ADDRESS"] == "mine"
    assert environ["HTTPS_PROXY"] == "http://proxy"
    assert environ["PATH"].startswith("/env/bin:")
    assert not {"JAX_PLATFORMS", "XLA_FLAGS", "PYTHONDONTWRITEBYTECODE", "MEGASCALE_NUM_SLICES"} & set(environ)


def test_free_ports_are_free_and_different():
    ports = machine.free_ports(8)
    assert len(set(ports)) == 8
    assert all(machine.port_is_free(port) for port in ports)


def test_a_port_that_is_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(DriverError, match=f"Port {port} is in use"):
            training._check_port(port)


def test_a_run_that_needs_more_memory_than_there_is_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(training, "available_memory_gib", lambda: 10.0)
    training._check_memory(RUN, 1.5)
    with pytest.raises(DriverError, match=r"needs some 12\.0 GiB of memory on this machine, and 10\.0 GiB"):
        training._check_memory(RUN, 2.0)


def test_a_python_without_ray_is_not_the_trainers(tmp_path):
    with pytest.raises(DriverError, match="has no `ray` beside it"):
        trainer_python(program(tmp_path / "python", ""))


def test_a_user_without_namespaces_is_told_what_to_allow(tmp_path, monkeypatch):
    for name in ("setpriv", "nsenter", "mount"):
        program(tmp_path / name, "")
    refuse = program(tmp_path / "unshare", "")
    refuse.write_text("#!/bin/sh\necho unshare failed: Operation not permitted >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(DriverError, match="Operation not permitted") as raised:
        machine.namespace_command()
    assert "user.max_user_namespaces" in raised.value.fix
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DriverError, match="Emulated slices need unshare, setpriv, nsenter, mount"):
        machine.namespace_command()
