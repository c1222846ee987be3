"""Earlier runs, from the revisions that Helm keeps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from driver.errors import DriverError
from driver.kube import runs
from driver.kube.release import Releases, Revision

START = datetime(2026, 11, 30, tzinfo=UTC)


@pytest.fixture
def earlier(connection, monkeypatch):
    """The earlier runs where revisions had these RayJobs ("": none, "a!": a suspended), an hour apart."""

    def of(*jobs, alive=()):
        revisions = [revision(number, job) for number, job in enumerate(jobs)]
        monkeypatch.setattr(Releases, "history", lambda self, name: revisions[::-1])
        monkeypatch.setattr(Releases, "revision", lambda self, name, number: revisions[number])
        living = [runs.Run("demo", "", job, 1, "running", None, None, None) for job in alive]
        return [
            (one.job, one.result, hour(one.began), hour(one.ended)) for one in runs.earlier(connection, "demo", living)
        ]

    return of


def revision(number, job):
    made = Revision("demo", number, "superseded", START + timedelta(hours=number), "")
    if not job:
        return made
    metadata = {"name": job.strip("!"), "labels": {"app.kubernetes.io/instance": "demo"}}
    return replace(made, manifests=({"kind": "RayJob", "metadata": metadata, "spec": {"suspend": job.endswith("!")}},))


def hour(time):
    return None if time is None else (time - START).total_seconds() / 3600


def test_a_run_begins_with_the_first_of_its_revisions(earlier):
    assert earlier("a", "a", "a", "b", alive="b") == [("a", "replaced", 0, 3)]


def test_a_run_that_a_stop_took_away_is_stopped(earlier):
    assert earlier("a", "", "b", alive="b") == [("a", "stopped", 0, 1)]
    assert earlier("a", "a!", "b", alive="b") == [("a", "stopped", 0, 1)]


def test_a_run_that_begins_suspended_is_kueue_s(earlier):
    assert earlier("a!", "b!", alive="b") == [("a", "replaced", 0, 1)]


def test_the_same_job_again_is_another_run(earlier):
    assert earlier("a", "b", "a", alive="a") == [("b", "replaced", 1, 2), ("a", "replaced", 0, 1)]


def test_a_job_that_somebody_deleted_is_gone(earlier):
    assert earlier("a") == [("a", "gone", 0, None)]


def test_a_release_that_nobody_knows_is_told(earlier, monkeypatch):
    monkeypatch.setattr(Releases, "names", lambda self: ["demo-2"])
    with pytest.raises(DriverError, match=r"There is no release demo[\s\S]*demo-2 for demo"):
        earlier()
