"""What a site file may say, and what is said of one that is wrong."""

import pytest
import yaml

from driver.errors import DriverError
from driver.gcp import site_file
from tests.gcp.sites import TUTORIAL

GOOD = yaml.safe_dump(TUTORIAL, sort_keys=False)
AUTOPILOT = {"cluster": {"name": "multislice", "mode": "autopilot"}}
V5E = {"zone": "us-west4-a", "tpu": {"type": "v5e", "topology": "2x2", "slices": 1}}
NAMED = {"existing": [{"network": "a", "subnetwork": "b"}]}


@pytest.fixture
def refused(tmp_path):
    """What is said of a site file with this content."""

    def read(content: str | bytes) -> str:
        path = tmp_path / "site.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(DriverError) as caught:
            site_file.read(path)
        assert caught.value.exit_code == 2
        return caught.value.format_message().replace(str(path), "site.yaml")

    return read


def with_parts(**parts) -> str:
    return yaml.safe_dump(TUTORIAL | parts)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("- a", "is a list"),
        (b"\x00\xff", "not text in UTF-8"),
        (f"{GOOD}project: other-project\n", "line 11, column 1: project stands there twice"),
        (f"{GOOD}? [a]\n: b\n", "unhashable key"),
        (f"{GOOD}x: 2020-13-45\n", "month must be in 1..12"),
        (f"{GOOD}x: {'9' * 5000}\n", "5000 digits"),
        (f"{GOOD}x: {'[' * 1000}{']' * 1000}\n", "nested too deeply"),
        (f"{GOOD}1: 2\n", "1 is unknown"),
        (f"{GOOD}service_account: x\n", "service_account is unknown. Did you mean serviceAccount?"),
    ],
    ids=["empty", "list", "binary", "twice", "list as key", "date", "digits", "deep", "number as key", "snake"],
)
def test_a_file_that_cannot_be_a_site_is_refused_in_one_line(refused, content, said):
    message = refused(content)
    assert said in message
    assert message.count("\n") <= 1  # and the rule


@pytest.mark.parametrize("slices", [True, "2", 2.0, 2.5, None, 0, -1, 257, float("inf")])
def test_slices_is_a_whole_number_and_nothing_is_turned_into_one(refused, slices):
    assert "tpu.slices " in refused(with_parts(tpu={"type": "v6e", "topology": "4x4", "slices": slices}))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"cluster": {"name": b"multislice"}}, "cluster.name is b'multislice'. It is text"),
        ({"cluster": {"name": "multislice", "existing": 1}}, "cluster.existing is 1. It is true or false"),
        ({"cluster": {"name": "multislice", "version": 1.35}}, "cluster.version is 1.35. It is text: put it in quotes"),
        ({"cluster": {"name": "a" * 5000}}, "... A cluster's name has at most 37"),
        ({"cluster": {"name": "multislice", "network": "$(id)"}}, "cluster.network is '$(id)'"),
        ({"cluster": {"name": "multislice", "subnetwork": "a b"}}, "cluster.subnetwork is 'a b'"),
        ({"cluster": {"name": "multislice", "defaultPool": {"machineType": ""}}}, "machineType is ''"),
        ({"network": {"existing": [{"network": "", "subnetwork": "b"}]}}, "network.existing[0].network is ''"),
        ({"network": {"existing": NAMED["existing"] * 2}}, "has a twice"),
        ({"network": {"existing": [{"network": "default", "subnetwork": "b"}]}}, "the cluster's own"),
        ({"network": {"existing": "a"}}, "network.existing is 'a'. It is a list"),
        ({"network": {"ranges": ["127.0.0.0/16"]}}, "set aside"),
        ({"network": {"ranges": ["10.50.0.0/255.255.0.0"]}}, "Google writes it as 10.50.0.0/16"),
        ({"network": None}, "network has no value"),
        ({"bucket": {"name": "a..b"}}, "bucket.name is 'a..b'"),
        ({"bucket": {"name": "192.168.5.4"}}, "like an IP address"),
        ({"bucket": {"name": "goog-data"}}, "Google's own"),
        ({"namespace": "kube-system"}, "for itself"),
    ],
)
def test_a_wrong_value_is_told_with_its_rule(refused, parts, said):
    assert said in refused(with_parts(**parts))


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        ({"network": NAMED | {"ranges": ["10.1.0.0/16"]}}, "network.ranges"),
        ({"network": NAMED | {"mtu": 1460}}, "network.mtu"),
        ({"network": {"profile": "auto", "ranges": ["10.1.0.0/16"]}}, "network.ranges"),
        ({"network": {"profile": "auto", "mtu": 1460}}, "network.mtu"),
        (AUTOPILOT | {"network": {"ranges": ["10.1.0.0/16"]}}, "network.ranges"),
        (AUTOPILOT | {"network": NAMED}, "network.existing"),
        (V5E | {"network": {"ranges": ["10.1.0.0/16"]}}, "network.ranges"),
        (V5E | {"network": NAMED}, "network.existing"),
        ({"cluster": AUTOPILOT["cluster"] | {"defaultPool": {"nodes": 2}}}, "cluster.defaultPool"),
        ({"cluster": {"name": "multislice", "existing": True, "defaultPool": {"nodes": 2}}}, "cluster.defaultPool"),
        ({"cluster": AUTOPILOT["cluster"] | {"releaseChannel": None}}, "cluster.releaseChannel"),
        ({"bucket": {"name": "b-1", "existing": True, "hierarchicalNamespace": False}}, "bucket.hierarchicalNamespace"),
    ],
)
def test_a_key_that_would_change_nothing_is_refused(refused, parts, key):
    assert refused(with_parts(**parts)).startswith(f"site.yaml: {key}")


def test_names_of_another_project_are_taken(tmp_path):
    path = tmp_path / "site.yaml"
    network = {"network": "projects/host/global/networks/n", "subnetwork": "projects/host/regions/r1/subnetworks/s"}
    path.write_text(with_parts(cluster={"name": "multislice", **network}, bucket={"name": "data.example.com"}))
    assert site_file.read(path).cluster.network == network["network"]
