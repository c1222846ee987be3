"""`driver plan` with the real compiler: libtpu's own, MaxText and JAX as they are, nothing kept from before.

It needs the compiler's environment (`driver plan --install`, which scripts/test runs). Without it the tests fail: what
they are for cannot be shown otherwise.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from driver import cli, resources
from driver.plan import environment, opening, planning
from driver.plan.cache import Cache

SPARE_GIB = {"llama3-70b": 1.0}
"""HBM that is to be left; the report's own margin for the others."""

TUTORIAL_FLAG = "job.libtpuFlags.xla_tpu_enable_async_collective_fusion_fuse_all_gather"

type Planned = Callable[..., tuple[int, Mapping[str, Any]]]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planned:
    """Runs `driver plan --quick`; gives its exit code and its JSON, or that of its error. The results of earlier
    plans would hide a compiler that has ceased to work."""
    assert environment.is_installed(), "driver plan --install"
    monkeypatch.setattr(opening, "Cache", lambda: Cache(tmp_path / "plans"))

    def run(*arguments: str) -> tuple[int, Mapping[str, Any]]:
        code = cli.run(["--output", "json", "plan", "--quick", *arguments])
        said = capsys.readouterr()
        return code, json.loads(said.out or said.err.splitlines()[-1])

    return run


@pytest.mark.parametrize("profile", ["llama3-8b", "llama3-70b", "llama3-8b-elastic"])
def test_a_shipped_profile_fits_on_every_number_of_slices(profile: str, planned: Planned) -> None:
    code, plan = planned("-f", profile)
    assert code == 0, plan
    slices = plan["slices"]
    assert [verdict["slices"] for verdict in plan["verdicts"]] == list(range(slices["min"], slices["max"] + 1))
    for verdict in plan["verdicts"]:
        assert verdict["fits"]
        hbm = verdict["hbmGiB"]
        assert hbm["spare"] >= SPARE_GIB.get(profile, 0.01 * hbm["usable"])
        assert sum(hbm["kinds"].values()) == pytest.approx(hbm["total"], abs=0.01)
    assert plan["notes"] == [planning.WITHOUT_CODE]


@pytest.mark.parametrize("profile", ["llama3-8b", "llama3-70b", "llama3-8b-elastic"])
def test_a_shipped_profile_says_what_it_takes(profile: str, planned: Planned) -> None:
    _, plan = planned("-f", profile)
    comment = (resources.values_dir() / f"{profile}.yaml").read_text().partition("\ntpu:")[0]
    for verdict in plan["verdicts"]:
        assert f"{verdict['hbmGiB']['total']:.1f}" in comment


def test_the_tutorial_s_flags_are_refused_with_the_one_to_take_away_and_compile_without_it(planned: Planned) -> None:
    code, told = planned("-f", "tutorial-8b")
    assert code == 2
    assert "Continuation fusion for AllGather" in told["error"]["found"]
    assert told["error"]["fix"] == f"--set {TUTORIAL_FLAG}=null"
    code, plan = planned("-f", "tutorial-8b", "--set", f"{TUTORIAL_FLAG}=null")
    assert code == 0
    assert plan["notes"][0].startswith("The values say MaxText 0.2.1.")


WRONG = [
    ("job.maxtext.per_device_batchsize=2", "job.maxtext.per_device_batch_size=2"),
    ("job.maxtext.model_name=llama3-9b", "job.maxtext.model_name=llama3-8b"),
    ("job.maxtext.remat_policy=ful", "another value"),
    ("job.maxtext.per_device_batch_size=abc", "another value"),
    ("job.libtpuFlags.xla_tpu_foo=true", "job.libtpuFlags.xla_tpu_foo=null"),
    ("job.libtpuFlags.xla_tpu_scoped_vmem_limit_kib=abc", "xla_tpu_scoped_vmem_limit_kib=null"),
]


@pytest.mark.parametrize(("wrong", "fix"), WRONG, ids=[wrong for wrong, _ in WRONG])
def test_bad_input_is_one_message_with_its_fix(wrong: str, fix: str, planned: Planned) -> None:
    code, told = planned("-f", "llama3-8b", "--set", wrong)
    assert code == 2
    assert fix in told["error"]["fix"]
