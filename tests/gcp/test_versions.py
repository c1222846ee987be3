"""GKE's versions: their order, and what a wish leads to."""

import json

import pytest
from google.cloud.container_v1.types import ServerConfig

from driver.errors import DriverError
from driver.gcp import dranet, versions
from driver.gcp.versions import parse
from tests.gcp import machines
from tests.gcp.sites import site


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.35.2-gke.999", "1.35.2-gke.1842000"),
        ("1.9.7-gke.1", "1.34.1-gke.1"),
        ("1.34.9-gke.5", "1.34.10-gke.1"),
        ("1.34", "1.34.1-gke.1829001"),
    ],
)
def test_versions_are_compared_number_by_number(older, newer):
    assert parse(older) < parse(newer)
    assert not parse(newer) < parse(older)


def test_a_version_reads_as_it_is_written():
    for text in ("1.35", "1.35.2", "1.35.2-gke.1842000"):
        assert str(parse(text)) == text


@pytest.mark.parametrize("text", ["", "latest", "1", "1.35.2-gke", "1.35.2-eks.1", "1.35.2.1"])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(ValueError, match="is not a GKE version"):
        parse(text)


def offered(channel):
    return versions.offer(ServerConfig.from_json(json.dumps(machines.server_config())), channel)


def test_no_wish_is_the_channels_default():
    assert str(offered("rapid").resolve("")) == "1.35.3-gke.1389000"


def test_a_default_that_is_too_old_gives_way_to_the_oldest_that_is_not():
    old = versions.Offer("stable", parse("1.33.5-gke.1"), (parse("1.33.5-gke.1"), parse("1.34.5-gke.1")))
    assert str(old.resolve("", parse("1.34.1-gke.1829001"))) == "1.34.5-gke.1"


def test_a_part_of_a_version_means_the_newest_that_it_stands_for():
    assert str(offered("regular").resolve("1.34")) == "1.34.5-gke.1002000"
    assert str(offered(None).resolve("1.35.3")) == "1.35.3-gke.1389000"


def test_a_version_that_the_channel_lacks_is_refused_with_those_that_it_has():
    with pytest.raises(DriverError, match=r"release channel regular has no version 1\.36 .*\n.*1\.35\.2-gke\.1842000"):
        offered("regular").resolve("1.36")


def test_a_version_below_the_minimum_is_refused_with_one_that_is_not():
    with pytest.raises(DriverError, match=r"1\.33, and the newest of that is 1\.33\.5") as caught:
        offered("regular").resolve("1.33", dranet.MINIMUM_VERSIONS["standard"])
    assert caught.value.fix == "cluster.version: 1.35 (now 1.35.2-gke.1842000)"


def test_a_channel_without_any_version_that_is_new_enough_is_refused():
    with pytest.raises(DriverError, match=r"no version from 1\.35\.2-gke\.1842000 on"):
        offered("stable").resolve("", dranet.MINIMUM_VERSIONS["autopilot"])


def test_a_channel_that_the_place_lacks_is_refused():
    with pytest.raises(DriverError, match="which GKE does not offer here"):
        versions.offer(ServerConfig(), "extended")


def test_the_minimum_is_that_of_the_clusters_mode_and_none_without_dranet():
    assert str(dranet.minimum_version(site())) == "1.34.1-gke.1829001"
    assert str(dranet.minimum_version(site(cluster={"mode": "autopilot"}))) == "1.35.2-gke.1842000"
    assert dranet.minimum_version(site(tpu={"type": "v5e"})) is None
