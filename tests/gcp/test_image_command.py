"""`driver image` as a command: what it prints, what it writes, how it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver import cli
from driver.gcp import site_file, values_file
from tests.gcp.clients import PROJECT
from tests.gcp.errors import GoogleError
from tests.gcp.faults import Fail, Refuse
from tests.gcp.sites import content

NAME = f"us-east5-docker.pkg.dev/{PROJECT}/maxtext-multislice/maxtext-trainer"


@pytest.fixture
def here(tmp_path, monkeypatch, key_file):
    """A folder with a site file and the values file that bootstrap leaves."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(content()))
    values_file.write(site_file.read(Path("site.yaml")), Path("site.values.yaml"))
    return tmp_path


def run(google, *options: str) -> int:
    return cli.run(["image", "--api-endpoint", google.endpoint, *options])


def values(folder: Path) -> Any:
    return yaml.safe_load((folder / "site.values.yaml").read_text())


def builds(google) -> list[str]:
    return [name for name in google.resources if "/builds/" in name]


def test_the_digest_is_written_beside_what_bootstrap_wrote(google, here, capsys):
    before = values(here)
    assert run(google) == 0
    uri = values(here)["image"]["uri"]
    assert uri.startswith(f"{NAME}@sha256:")
    assert values(here) == before | {"image": {"uri": uri}}
    assert uri in capsys.readouterr().out


def test_bootstrap_keeps_the_image(google, here):
    run(google)
    uri = values(here)["image"]["uri"]
    values_file.write(site_file.read(Path("site.yaml")), Path("site.values.yaml"))
    assert values(here)["image"]["uri"] == uri


def test_a_second_run_says_that_nothing_was_built(google, here, capsys):
    run(google)
    capsys.readouterr()
    assert run(google) == 0
    assert "nothing was built" in capsys.readouterr().out
    assert len(builds(google)) == 1


def test_json_has_the_image_and_the_build(google, here, capsys):
    assert run(google, "--output", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["uri"] == values(here)["image"]["uri"]
    assert data["tagged"].startswith(f"{NAME}:")
    assert data["build"]["id"] == builds(google)[0].rpartition("/")[2]
    assert data["build"]["logUrl"].startswith("https://console.cloud.google.com/")
    assert data["valuesFile"] == "site.values.yaml"


def test_the_log_can_be_opened_while_the_build_runs(google, here, capsys):
    google.delays["build"] = 3600
    assert run(google, "--detach") == 0
    captured = capsys.readouterr()
    assert "https://console.cloud.google.com/" in captured.err
    assert "driver image -c site.yaml" in captured.out
    assert "image" not in values(here)


def test_without_a_values_file_the_image_is_built_and_the_next_step_told(google, here, capsys):
    (here / "site.values.yaml").unlink()
    assert run(google) == 0
    out = capsys.readouterr().out
    assert f"{NAME}@sha256:" in out
    assert "driver bootstrap" in out
    assert not (here / "site.values.yaml").exists()


def test_somebody_elses_values_file_is_refused_before_a_build(google, here, capsys):
    (here / "mine.yaml").write_text("image: {}\n")
    assert run(google, "--values-file", "mine.yaml") != 0
    assert "mine.yaml" in capsys.readouterr().err
    assert google.mutating_calls == []


def test_a_failed_build_ends_with_1_and_leaves_the_values_as_they_were(google, here, capsys):
    before = values(here)
    google.faults.add(
        lambda method, path: path.endswith("/builds") and method == "POST", Fail(GoogleError("INTERNAL", "x"))
    )
    assert run(google) == 1
    assert "Fix: " in capsys.readouterr().err
    assert values(here) == before


@pytest.mark.parametrize("permission", ["cloudbuild.builds.create", "artifactregistry.repositories.create"])
def test_a_missing_permission_is_named_with_its_grant(google, here, capsys, permission):
    from driver.gcp.image import PERMISSIONS

    google.permissions = {*PERMISSIONS} - {permission}
    assert run(google) == 1
    told = capsys.readouterr().err
    assert permission in told
    assert "add-iam-policy-binding" in told


def test_its_list_of_permissions_is_enough(google, here):
    from driver.gcp.image import PERMISSIONS

    google.permissions = {*PERMISSIONS}
    assert run(google) == 0


def test_an_api_that_is_off_is_named(google, here, capsys):
    del google.resources[f"projects/{PROJECT}/services/cloudbuild.googleapis.com"]
    assert run(google) == 1
    assert f"gcloud services enable cloudbuild.googleapis.com --project={PROJECT}" in capsys.readouterr().err


def test_an_error_of_google_is_a_message_and_no_stack_trace(google, here, capsys):
    google.faults.add(lambda method, path: path.endswith("/builds"), Refuse.with_code(409))
    assert run(google) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("options", [("--machine-type", "n2-standard-4"), ("--timeout-minutes", "0"), ("extra",)])
def test_options_that_cannot_be_are_refused(google, here, options):
    assert run(google, *options) == 2
    assert google.calls == []


def test_ctrl_c_ends_the_waiting_and_says_how_to_go_on(google, here):
    google.delays["build"] = 3600
    program = "from driver import cli; cli.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "image", "--api-endpoint", google.endpoint],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Build "):
            break
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "Stopped waiting" in told
    assert "`driver image -c site.yaml` finds it" in told
    assert "Traceback" not in told
    google.finish_all()
    assert run(google) == 0
    assert len(builds(google)) == 1
