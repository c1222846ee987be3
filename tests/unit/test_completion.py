"""What a shell completes."""

from pathlib import Path

import pytest
import yaml
from click.shell_completion import ShellComplete

from driver.cli import cli


def completed(*words: str) -> list[tuple[str, str]]:
    """Kind and text of what the last word may become."""
    *arguments, incomplete = words
    found = ShellComplete(cli, {}, "driver", "_DRIVER_COMPLETE").get_completions(arguments, incomplete)
    return [(one.type, one.value) for one in found]


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config"
    contexts = [{"name": name, "context": {"cluster": name, "user": name}} for name in ("gke-a", "gke-b", "kind")]
    file.write_text(yaml.safe_dump({"contexts": contexts, "users": []}))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


def test_commands_are_completed():
    assert completed("unin") == [("plain", "uninstall")]


def test_a_values_file_is_a_profile_or_one_of_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "tiger.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert completed("install", "demo", "-f", "ti") == [("plain", "tiger.yaml"), ("plain", "tiny")]


def test_what_is_no_profile_is_left_to_the_shell():
    assert completed("install", "demo", "-f", "../si") == [("file", "../si")]


@pytest.mark.usefixtures("kubeconfig")
def test_contexts_are_those_of_the_kubeconfig():
    assert completed("status", "--context", "gke") == [("plain", "gke-a"), ("plain", "gke-b")]


def test_the_kubeconfig_that_was_named_before_counts(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KUBECONFIG")
    assert completed("--kubeconfig", str(kubeconfig), "status", "--context", "ki") == [("plain", "kind")]


def test_without_a_cluster_nothing_is_completed_and_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert completed("status", "") == []
    assert completed("status", "--context", "") == []
    assert capfd.readouterr() == ("", "")
