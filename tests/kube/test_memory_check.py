"""The memory check of `driver install`: when it is made, and that it comes before any change. What it says of a run is
tests/plan/test_before_install.py's."""

import pytest

from driver import cli
from driver.errors import USAGE, DriverError
from driver.plan import before_install
from driver.plan.before_install import Remark
from tests.kube.clusters import SITE, prepare

TINY = ["-f", "tiny", *(argument for each in SITE for argument in ("--set", each))]
WRITES = ("POST", "PATCH", "PUT", "DELETE")


@pytest.fixture(autouse=True)
def cluster(api, kubeconfig):
    prepare(api)


@pytest.fixture
def asked(monkeypatch):
    """The runs that were checked; `says` of it is what the check gives, or raises."""

    class Asked(list[str]):
        says: Remark | DriverError | None = Remark("HBM: 1.00 of 31.25 GiB per device: it fits.")

    made = Asked()

    def check(run, watch):
        made.append(run["name"])
        if isinstance(made.says, DriverError):
            raise made.says
        return made.says

    monkeypatch.setattr(before_install, "check", check)
    return made


def install(*arguments):
    return cli.run(["install", "demo", "--detach", *TINY, *arguments])


def test_a_run_that_does_not_fit_is_refused_before_anything_is_changed(api, asked, capsys):
    asked.says = DriverError("On 2 slices the run needs 50 GiB.", fix="--no-plan", exit_code=USAGE)
    assert install() == 2
    assert "On 2 slices the run needs 50 GiB." in capsys.readouterr().err
    writes = [call for call in api.calls if call.method in WRITES and "review" not in call.target]
    assert [call.target for call in writes if "dryRun" not in call.target] == []
    assert api.names("rayclusters") == []


def test_what_fits_is_told_and_installed(api, asked, capsys):
    assert install() == 0
    assert "HBM: 1.00 of 31.25 GiB per device" in capsys.readouterr().err
    assert len(api.names("rayjobs")) == 1


def test_without_the_check_it_is_not_asked_for(asked):
    assert install("--no-plan") == 0
    assert asked == []


def test_the_same_run_is_not_checked_again_and_a_rerun_is(asked):
    install()
    install()
    assert asked == ["demo"]
    assert cli.run(["install", "demo", "--rerun", "--detach"]) == 0
    assert asked == ["demo", "demo"]


def test_an_install_that_submits_no_run_is_not_checked(asked):
    assert install("--set", "job.enabled=false") == 0
    assert asked == []


@pytest.mark.parametrize("option", ["--dry-run", "--diff"])
def test_what_changes_nothing_is_not_checked_and_takes_no_option_against_it(option, asked, capsys):
    assert cli.run(["install", "demo", *TINY, option]) == 0
    assert asked == []
    capsys.readouterr()
    assert cli.run(["install", "demo", *TINY, option, "--no-plan"]) == 2
    assert f"{option} checks no memory" in capsys.readouterr().err


def test_without_the_compiler_an_install_says_how_it_would_be_checked(capsys):
    assert install() == 0
    assert "driver plan --install" in capsys.readouterr().err
