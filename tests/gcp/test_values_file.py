"""The site's values file, and the chart that takes it."""

import pytest
import yaml

from driver import chart, resources
from driver.errors import DriverError
from driver.gcp import values_file
from driver.values import Values
from tests.gcp.sites import site

MODES = {
    "on demand": site(),
    "spot": site(tpu={"capacity": "spot"}),
    "reservation": site(tpu={"capacity": "reservation", "reservation": "held", "reservationProject": "lender-project"}),
    "flex-start": site(tpu={"capacity": "flex-start", "maxRunDurationSeconds": 3600}),
    "automatic networks": site(network={"profile": "auto"}),
    "eight chips per host": site(tpu={"topology": "2x4", "chipsPerHost": 8}),
    "flat bucket": site(bucket={"hierarchicalNamespace": False}),
    "v5e": site(tpu={"type": "v5e"}),
    "v7x": site(tpu={"type": "v7x", "topology": "2x2x2"}),
    "autopilot": site(cluster={"mode": "autopilot"}),
    "autopilot, spot": site(cluster={"mode": "autopilot"}, tpu={"capacity": "spot"}),
    "autopilot, reservation": site(
        cluster={"mode": "autopilot"},
        tpu={"capacity": "reservation", "reservation": "held", "reservationProject": "lender-project"},
    ),
    "autopilot, flex-start": site(
        cluster={"mode": "autopilot"}, tpu={"capacity": "flex-start", "maxRunDurationSeconds": 3600}
    ),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "site.values.yaml"


def rendered(path):
    return chart.render(Values((path,)), "llama")


@pytest.mark.parametrize("mode", MODES)
def test_the_chart_takes_every_mode(path, mode):
    the_site = MODES[mode]
    values_file.write(the_site, path)
    rendering = rendered(path)
    assert rendering.run["tpu"]["type"] == the_site.tpu.type
    assert rendering.run["tpu"]["topology"] == the_site.tpu.topology
    assert rendering.run["slices"]["max"] == the_site.tpu.slices
    service_account = rendering.one("ServiceAccount")
    assert service_account["metadata"]["name"] == "maxtext"
    (volume,) = [one for one in rendering.worker_pod["volumes"] if one["name"] == "storage"]
    assert volume["csi"]["volumeAttributes"]["bucketName"] == "demo-bucket"


@pytest.mark.parametrize(
    ("mode", "label", "value"),
    [
        ("spot", "cloud.google.com/gke-spot", "true"),
        ("reservation", "cloud.google.com/reservation-name", "held"),
        ("flex-start", "cloud.google.com/gke-flex-start", "true"),
    ],
)
def test_the_workers_go_to_nodes_of_the_sites_capacity(path, mode, label, value):
    values_file.write(MODES[mode], path)
    assert rendered(path).worker_pod["nodeSelector"][label] == value


def test_it_goes_on_top_of_the_profile_that_the_header_names(path):
    values_file.write(site(), path)
    rendering = chart.render(Values((resources.values_dir() / "llama3-70b.yaml", path)), "llama")
    assert rendering.run["maxtext"]["model_name"] == "llama3-70b"


def test_on_autopilot_the_class_makes_the_nodes(path):
    values_file.write(MODES["autopilot, reservation"], path)
    spec = rendered(path).one("ComputeClass")["spec"]
    assert spec["priorityDefaults"]["location"]["zones"] == ["us-east5-b"]
    (priority,) = spec["priorities"]
    assert priority["reservations"]["specific"] == [{"name": "held", "project": "lender-project"}]
    assert priority["acceleratorNetworkProfile"] == "auto"


def test_on_autopilot_no_container_is_privileged(path):
    values_file.write(MODES["autopilot"], path)
    assert rendered(path).worker_pod["containers"][0]["securityContext"]["privileged"] is False


def test_flex_start_on_autopilot_ends_when_the_site_says(path):
    values_file.write(MODES["autopilot, flex-start"], path)
    (priority,) = rendered(path).one("ComputeClass")["spec"]["priorities"]
    assert priority["maxRunDurationSeconds"] == 3600


@pytest.mark.parametrize(
    ("the_site", "claim"),
    [
        (site(), {"allocationMode": "ExactCount", "count": 2}),
        (site(network={"ranges": ["10.50.0.0/16"]}), {"allocationMode": "ExactCount", "count": 1}),
        (
            site(network={"existing": [{"network": "a", "subnetwork": "b"}]}),
            {"allocationMode": "ExactCount", "count": 1},
        ),
        (site(network={"profile": "auto"}), {"allocationMode": "All"}),
        (site(cluster={"mode": "autopilot"}), {"allocationMode": "All"}),
    ],
)
def test_a_worker_claims_as_many_devices_as_there_are_networks(path, the_site, claim):
    values_file.write(the_site, path)
    spec = rendered(path).one("ResourceClaimTemplate")["spec"]["spec"]
    asked = spec["devices"]["requests"][0]["exactly"]
    assert {key: asked[key] for key in claim} == claim
    assert "count" not in asked or "count" in claim


def test_a_machine_without_dranet_claims_nothing(path):
    values_file.write(MODES["v5e"], path)
    with pytest.raises(KeyError):
        rendered(path).one("ResourceClaimTemplate")
    assert "# ct5lp-hightpu-4t has no DRANET" in path.read_text()


def test_a_flat_bucket_may_rename_folders(path):
    values_file.write(site(), path, hierarchical_namespace=False)
    (volume,) = [one for one in rendered(path).worker_pod["volumes"] if one["name"] == "storage"]
    assert "rename-dir-limit=200000" in volume["csi"]["volumeAttributes"]["mountOptions"].split(",")


def test_a_bucket_with_a_hierarchical_namespace_needs_no_option(path):
    values_file.write(site(), path, hierarchical_namespace=True)
    assert "rename-dir-limit" not in path.read_text()


def test_written_again_it_is_the_same_and_not_touched(path):
    assert values_file.write(site(), path)
    before = path.stat().st_mtime_ns, path.read_text()
    assert not values_file.write(site(), path)
    assert (path.stat().st_mtime_ns, path.read_text()) == before


def test_the_image_stays_when_the_site_changes(path):
    values_file.write(site(), path)
    assert values_file.set_image(path, "us-east5-docker.pkg.dev/demo-project/maxtext/trainer@sha256:0123")
    assert values_file.write(site(tpu={"slices": 4}), path)
    content = yaml.safe_load(path.read_text())
    assert content["image"] == {"uri": "us-east5-docker.pkg.dev/demo-project/maxtext/trainer@sha256:0123"}
    assert content["tpu"]["slices"] == 4


def test_the_image_takes_the_place_of_an_older_one(path):
    values_file.write(site(), path)
    values_file.set_image(path, "host/a:1")
    assert values_file.set_image(path, "host/a:2")
    assert not values_file.set_image(path, "host/a:2")
    assert path.read_text().count("uri:") == 1


def test_an_image_may_come_before_the_site(path):
    values_file.set_image(path, "host/a:1")
    assert yaml.safe_load(path.read_text()) == {"image": {"uri": "host/a:1"}}
    values_file.write(site(), path)
    content = yaml.safe_load(path.read_text())
    assert content["image"] == {"uri": "host/a:1"}
    assert content["storage"] == {"bucket": "demo-bucket"}


@pytest.mark.parametrize("change", [values_file.check, lambda path: values_file.write(site(), path)])
def test_a_file_of_others_is_refused_and_left_alone(path, change):
    path.write_text("tpu: {slices: 1}\n")
    with pytest.raises(DriverError, match="was not made by driver bootstrap") as caught:
        change(path)
    assert path.read_text() == "tpu: {slices: 1}\n"
    assert caught.value.fix.startswith("mv ")


def test_no_file_is_no_file_of_others(path):
    values_file.check(path)


def test_the_header_says_what_it_is_for_and_how_to_use_it(path):
    values_file.write(site(), path)
    header = "".join(line for line in path.read_text().splitlines(True) if line.startswith("#"))
    assert header.startswith("# Made by `driver bootstrap`")
    assert "-f values/llama3-70b.yaml -f site.values.yaml -n maxtext" in header


def test_it_lies_beside_the_site_file(tmp_path):
    assert values_file.path_beside(tmp_path / "prod.yaml") == tmp_path / "prod.values.yaml"


def test_the_service_account_that_every_namespace_has_is_not_made_again(path):
    values_file.write(site(serviceAccount="default"), path)
    rendering = rendered(path)
    assert "ServiceAccount" not in [one["kind"] for one in rendering.manifests]
    assert rendering.worker_pod["serviceAccountName"] == "default"
