"""The site file: what it says, what it leaves to defaults, and what is wrong with it in one message."""

import copy
from typing import Any

import click
import pytest
import yaml

from driver import cli, gcp_options, tpu
from driver.errors import USAGE, DriverError
from driver.gcp import site_file
from driver.gcp.site import Site
from tests.gcp.sites import TUTORIAL


@pytest.fixture
def read(tmp_path):
    """Reads the least site file with these changes, dotted keys to values."""

    def with_changes(changes: dict[str, Any] | None = None) -> Site:
        content = copy.deepcopy(TUTORIAL)
        for place, value in (changes or {}).items():
            *above, key = place.split(".")
            part = content
            for one in above:
                part = part.setdefault(one, {})
            part[key] = value
        path = tmp_path / "site.yaml"
        path.write_text(yaml.safe_dump(content))
        return site_file.read(path)

    return with_changes


@pytest.fixture
def refused(read):
    """The message that such a site file gets, from after the file's name, and that it is a usage error."""

    def with_changes(changes: dict[str, Any]) -> str:
        with pytest.raises(DriverError) as error:
            read(changes)
        assert error.value.exit_code == USAGE
        return error.value.format_message().partition("site.yaml")[2].removeprefix(": ")

    return with_changes


def test_the_least_file_leaves_the_rest_to_defaults(read):
    site = read()
    assert (site.region, site.location, site.id) == ("us-east5", "us-east5-b", "multislice_us-east5-b")
    assert (site.cluster.mode, site.cluster.release_channel, site.cluster.version) == ("standard", "regular", "")
    assert (site.cluster.default_pool.machine_type, site.cluster.default_pool.nodes) == ("n1-standard-16", 1)
    assert (site.tpu.capacity, site.network.mtu) == ("on-demand", 8896)
    assert site.network.ranges == ("10.50.0.0/16", "10.60.0.0/16")
    assert site.bucket.hierarchical_namespace
    assert (site.namespace, site.service_account, site.image.repository) == (
        "maxtext", "maxtext", "maxtext-multislice",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        ({}, "us-east5-b"),
        ({"cluster.location": "zone"}, "us-east5-b"),
        ({"cluster.location": "region"}, "us-east5"),
        ({"cluster.mode": "autopilot"}, "us-east5"),
        ({"cluster.mode": "autopilot", "cluster.location": "region"}, "us-east5"),
        ({"zone": "us-south1-ai1b"}, "us-south1-ai1b"),
    ],
)
def test_the_cluster_is_in_the_zone_unless_it_is_regional(read, changes, location):
    assert read(changes).location == location


@pytest.mark.parametrize(
    "changes",
    [
        {"project": "example.com:my-project"},
        {"cluster.name": "a" * 37},
        {"cluster.version": "1.35"},
        {"cluster.version": "1.35.2-gke.1842000"},
        {"cluster.releaseChannel": None},
        {"tpu.capacity": "reservation", "tpu.reservation": "mine", "tpu.reservationProject": "theirs"},
        {"tpu.capacity": "flex-start", "tpu.maxRunDurationSeconds": 604800},
        {"network.profile": "auto"},
        {"network.existing": [{"network": "a", "subnetwork": "b"}]},
        {"network.ranges": ["10.0.0.0/8", "192.168.0.0/29"]},
        {"bucket.name": "a.b_c-d"},
    ],
)
def test_what_google_takes_is_taken(read, changes):
    assert read(changes)


@pytest.mark.parametrize(
    ("tpu_type", "topology", "machine", "hosts", "pod_type"),
    [
        ("v6e", "4x4", "ct6e-standard-4t", 4, "v6e-16"),
        ("v6e", "1x1", "ct6e-standard-1t", 1, "v6e-1"),
        ("v4", "2x2x4", "ct4p-hightpu-4t", 4, "v4-32"),
    ],
)
def test_a_slice_is_what_the_charts_table_has(read, tpu_type, topology, machine, hosts, pod_type):
    site = read({"tpu.type": tpu_type, "tpu.topology": topology, "tpu.slices": 3})
    assert (site.slice.machine_type, site.slice.hosts, site.slice.pod_type) == (machine, hosts, pod_type)
    assert site.slice.chips == hosts * site.slice.chips_per_host


def test_every_topology_of_the_table_is_a_slice_of_whole_hosts():
    for tpu_type, facts in tpu.table().items():
        for topology, ways in facts["topologies"].items():
            for chips_per_host in ways:
                one = tpu.find(tpu_type, topology, chips_per_host)
                assert one.hosts * chips_per_host == one.chips


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("clustr", "clustr is unknown. Did you mean cluster?"),
        ("cluster.releasechannel", "cluster.releasechannel is unknown. Did you mean cluster.releaseChannel?"),
        ("cluster.default_pool", "cluster.default_pool is unknown. Did you mean cluster.defaultPool?"),
        ("cluster.defaultPool.node", "cluster.defaultPool.node is unknown. Did you mean cluster.defaultPool.nodes?"),
        ("tpu.slice", "tpu.slice is unknown. Did you mean tpu.slices?"),
        ("network.range", "network.range is unknown. Did you mean network.ranges?"),
        ("bucket.names", "bucket.names is unknown. Did you mean bucket.name?"),
        ("image.repo", "image.repo is unknown. Did you mean image.repository?"),
        ("slices", "slices is unknown. Did you mean tpu.slices?"),
        ("cluster.namespace", "cluster.namespace is unknown. Did you mean "),
        ("bucket.colour", "bucket.colour is unknown. There is existing, hierarchicalNamespace, name."),
    ],
)
def test_an_unknown_key_names_the_nearest_one(refused, key, said):
    assert refused({key: 1}).startswith(said)


def test_an_unknown_key_in_a_list_names_the_nearest_one(refused):
    said = refused({"network.existing": [{"network": "a", "subnetwork": "b", "region": "c", "subnetwrk": "d"}]})
    assert "network.existing[0].region is unknown. There is network, subnetwork." in said
    assert "network.existing[0].subnetwrk is unknown. Did you mean network.existing[0].subnetwork?" in said


@pytest.mark.parametrize("key", ["project", "zone", "cluster", "tpu", "bucket", "cluster.name", "tpu.type"])
def test_a_missing_key_is_named(tmp_path, key):
    content = copy.deepcopy(TUTORIAL)
    part, _, last = key.rpartition(".")
    del (content[part] if part else content)[last]
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(DriverError, match=rf"site\.yaml: {key} is missing\.$"):
        site_file.read(path)


NAME = "lower-case letters, digits and hyphens"
BROKEN_RULES: list[tuple[dict[str, Any], str]] = [
    ({"project": "My Project"}, "project is 'My Project'. A project's ID has 6 to 30 lower-case letters"),
    ({"project": "short"}, "project is 'short'. A project's ID has 6 to 30"),
    ({"zone": "us-east5"}, "zone is 'us-east5'. A zone is a region and a letter, as in us-east5-b."),
    ({"cluster.name": "X_y"}, f"cluster.name is 'X_y'. A cluster's name has at most 37 {NAME}"),
    ({"cluster.name": "a" * 38}, "A cluster's name has at most 37"),
    ({"cluster.name": "ends-"}, "does not end with a hyphen"),
    ({"cluster.mode": "auto"}, "cluster.mode is 'auto'. It is standard or autopilot."),
    ({"cluster.existing": "maybe"}, "cluster.existing is 'maybe'. It is true or false."),
    ({"cluster.version": "latest"}, "cluster.version is 'latest'. A GKE version is as in 1.35.2-gke.1842000"),
    ({"cluster.version": 1.3}, "cluster.version is 1.3. It is text: put it in quotes."),
    ({"cluster.releaseChannel": "none"}, "cluster.releaseChannel is 'none'. It is rapid, regular, stable or extended."),
    ({"cluster.defaultPool.nodes": 0}, "cluster.defaultPool.nodes is 0; the minimum is 1."),
    ({"cluster": "multislice"}, "cluster is 'multislice'. It has keys of its own: defaultPool, existing,"),
    ({"tpu": ["v6e"]}, "tpu is a list. It has keys of its own: capacity,"),
    ({"tpu.slices": 0}, "tpu.slices is 0; the minimum is 1."),
    ({"tpu.slices": 257}, "tpu.slices is 257; the maximum is 256."),
    ({"tpu.slices": 1.5}, "tpu.slices is 1.5. It is a whole number."),
    ({"tpu.slices": True}, "tpu.slices is true. It is a whole number."),
    ({"tpu.slices": None}, "tpu.slices has no value."),
    ({"tpu.type": "v9"}, "tpu.type is 'v9'. There is v4, v5e, v5p, v6e, v7x."),
    ({"tpu.topology": "3x3"}, "tpu.topology is '3x3'. v6e has 1x1, 2x2, 2x4, 4x4,"),
    ({"tpu.chipsPerHost": 3}, "tpu.chipsPerHost is 3. v6e 4x4 is built of hosts with 4."),
    ({"tpu.capacity": "cheap"}, "tpu.capacity is 'cheap'. It is on-demand, spot, reservation or flex-start."),
    ({"tpu.maxRunDurationSeconds": -1}, "tpu.maxRunDurationSeconds is -1; the minimum is 0."),
    ({"network.mtu": 9000}, "network.mtu is 9000; the maximum is 8896."),
    ({"network.ranges": "10.50.0.0/16"}, "network.ranges is '10.50.0.0/16'. It is a list, as in [a, b]."),
    ({"network.ranges": ["10.50/16"]}, "network.ranges has '10.50/16'. A range is an IPv4 address and the length"),
    ({"network.ranges": ["10.50.0.1/16"]}, "has '10.50.0.1/16', an address inside of a range. The range is 10.50.0.0/"),
    ({"network.ranges": ["10.50.0.0/30"]}, "with a prefix of 30 bits. A subnet's has 8 to 29"),
    ({"network.ranges": ["10.0.0.0/8", "10.9.0.0/16"]}, "network.ranges has 10.0.0.0/8 and 10.9.0.0/16, which overlap"),
    ({"network.ranges": []}, "network.ranges is empty. Give a range per network, name networks under"),
    ({"bucket.name": "gs://mine"}, "bucket.name is 'gs://mine'. A bucket's name has 3 to 63"),
    ({"namespace": "A"}, "namespace is 'A'. A name in Kubernetes has at most 63"),
    ({"serviceAccount": "a" * 64}, "A name in Kubernetes has at most 63"),
    ({"image.repository": "my_images"}, f"image.repository is 'my_images'. A name has at most 63 {NAME}"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), BROKEN_RULES)
def test_a_value_outside_of_its_rule_is_told_with_the_rule(refused, changes, said):
    message = refused(changes)
    assert said in message
    assert "problems" not in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"cluster.mode": "autopilot", "cluster.location": "zone"},
            "cluster.location is zone and cluster.mode is autopilot.",
        ),
        ({"tpu.capacity": "reservation"}, "tpu.capacity is reservation and tpu.reservation is missing."),
        ({"tpu.reservation": "mine"}, "tpu.reservation is 'mine' and tpu.capacity is on-demand."),
        ({"tpu.reservationProject": "theirs"}, "tpu.reservationProject is 'theirs' and tpu.reservation is missing."),
        ({"tpu.maxRunDurationSeconds": 60}, "tpu.maxRunDurationSeconds is 60 and tpu.capacity is on-demand."),
        (
            {"network.profile": "auto", "network.existing": [{"network": "a", "subnetwork": "b"}]},
            "network.existing is set and network.profile is auto.",
        ),
    ],
)
def test_values_that_do_not_go_together_are_told_together(refused, changes, said):
    assert refused(changes).startswith(said)


def test_all_problems_are_told_at_once(refused):
    said = refused(
        {
            "project": "X",
            "cluster.nmae": "a",
            "cluster.mode": "autopilot",
            "cluster.location": "zone",
            "tpu.type": "v9",
            "tpu.slices": 0,
            "tpu.capacity": "reservation",
            "network.ranges": ["nonsense", "10.50.0.1/16"],
            "network.mtu": 9000,
        }
    )
    first, *problems = said.splitlines()
    assert first == " has 9 problems:"
    expected = [
        *("project", "cluster.location", "cluster.nmae", "tpu.slices", "tpu.type", "tpu.capacity"),
        *("network.ranges", "network.ranges", "network.mtu"),
    ]
    assert [line.split()[:2] for line in problems] == [[f"{n}.", key] for n, key in enumerate(expected, 1)]


def test_a_value_too_long_to_show_is_cut(refused):
    assert len(refused({"zone": "z" * 5000})) < 250


@pytest.fixture
def complaint(add_command, capsys, tmp_path):
    """What a command says of the file of that content, and that it is a usage error."""
    command = gcp_options.site_options(click.Command("sow", callback=gcp_options.site))
    add_command("sow", command)

    def of(content: bytes | str | None, name: str = "site.yaml") -> str:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert cli.run(["sow", "-c", str(path)]) == USAGE
        return " ".join(capsys.readouterr().err.split())

    return of


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [1", "is not YAML: line 1, column 6: expected ',' or ']'"),
        ("a: 1\n b: 2", "is not YAML: line 2, column 3"),
        ("a: 1\n---\nb: 2", "is not YAML: line 2, column 1"),
        ("zone: a\nproject: b\nzone: c", "is not YAML: line 3, column 1: zone stands there twice."),
        (b"\xff\xfe\x00", "is not text in UTF-8."),
        (b"\x00", "is not YAML: "),
        ("", "is empty."),
        ("- a", "is a list."),
        ("words", "is a single value."),
    ],
)
def test_a_file_that_is_no_mapping_in_yaml_is_refused_with_the_place(complaint, content, said):
    assert f"site.yaml {said}" in complaint(content)


def test_a_file_that_is_not_there_is_a_usage_error_with_a_fix(complaint):
    said = complaint(None, "none.yaml")
    assert "There is no site file" in said
    assert "--config FILE" in said


def test_a_folder_is_no_site_file(complaint, tmp_path):
    (tmp_path / "folder").mkdir()
    assert "folder cannot be read: Is a directory." in complaint(None, "folder")


def test_a_broken_rule_ends_a_command_as_a_usage_error(complaint):
    assert "tpu.slices is 0; the minimum is 1." in complaint(
        yaml.safe_dump(TUTORIAL | {"tpu": {"type": "v6e", "topology": "4x4", "slices": 0}})
    )
