"""driver bootstrap and driver teardown, from the command line to what is there in the end."""

import json

import pytest
import yaml

from tests.gcp.commands import Desk
from tests.gcp.faults import STOCK_OUT, Cut, Fail, Refuse
from tests.gcp.google import Google

RESOURCES = {
    "VPC network": 2, "VPC subnet": 2, "firewall rule": 2, "GKE cluster": 1, "node pool": 2, "bucket": 1,
    "namespace": 1,
}  # fmt: skip


def test_bootstrap_makes_everything_and_leaves_values_and_a_kubeconfig_entry(desk: Desk):
    done = desk.run("bootstrap")
    assert done.wait() == 0, done.said
    values = yaml.safe_load((desk.folder / "site.values.yaml").read_text())
    assert values["storage"]["bucket"] == "demo-bucket"
    entry = yaml.safe_load((desk.folder / "kubeconfig").read_text())
    assert entry["current-context"] == "gke_demo-project_us-east5-b_multislice"
    assert "helm install" in done.said


def test_a_second_bootstrap_changes_nothing(desk: Desk, google: Google):
    desk.run("bootstrap")
    before, calls = google.state(), len(google.mutating_calls)
    done = desk.run("bootstrap")
    assert done.wait() == 0, done.said
    assert "nothing was changed" in done.said
    assert len(google.mutating_calls) == calls
    assert google.state() == before


def test_a_dry_run_makes_nothing_and_lists_everything(desk: Desk, google: Google):
    before = google.state()
    done = desk.run("bootstrap", "--dry-run", "--output", "json")
    assert done.wait() == 0, done.said
    steps = json.loads(done.said)["steps"]
    made = [step["kind"] for step in steps if step["action"] == "create"]
    assert {kind: made.count(kind) for kind in RESOURCES} == RESOURCES
    assert not google.mutating_calls
    assert google.state() == before


def test_more_slices_add_node_pools_and_fewer_remove_them(desk: Desk, google: Google):
    desk.run("bootstrap")
    two = google.state()
    desk.write_site(tpu={"type": "v6e", "topology": "4x4", "slices": 3})
    assert desk.run("bootstrap").wait() == 0
    assert [name for name in google.state() if name.endswith("nodePools/v6e-16-2")]
    desk.write_site()
    refused = desk.run("bootstrap")
    assert refused.wait() == 1
    assert "v6e-16-2" in refused.said
    done = desk.run("bootstrap", "--yes")
    assert done.wait() == 0, done.said
    assert google.state() == two


def test_a_foreign_resource_with_our_name_stops_everything_before_it_begins(desk: Desk, google: Google):
    desk.run("bootstrap")
    network = next(name for name in google.resources if name.endswith("networks/multislice-net-1"))
    google.resources[network]["description"] = "of the other team"
    before, calls = google.state(), len(google.mutating_calls)
    for command in (["bootstrap"], ["bootstrap", "--update-cluster", "--yes"]):
        refused = desk.run(*command)
        assert refused.wait() == 1
        assert "multislice-net-1 is there and was not made for this site" in refused.said
    assert (google.state(), len(google.mutating_calls)) == (before, calls)


def test_a_stock_out_names_the_alternatives_and_the_next_bootstrap_goes_on(desk: Desk, google: Google):
    google.faults.add(lambda method, path: method == "POST" and path.endswith("/nodePools"), Fail(STOCK_OUT))
    failed = desk.run("bootstrap")
    assert failed.wait() == 1
    assert "tpu.capacity: spot" in failed.said
    assert "flex-start" in failed.said
    assert google.faults.left == 0
    done = desk.run("bootstrap", "--yes")
    assert done.wait() == 0, done.said
    assert sum(name.endswith(("nodePools/v6e-16-0", "nodePools/v6e-16-1")) for name in google.state()) == 2


@pytest.mark.parametrize("fault", [Refuse.with_code(503), Refuse.with_code(429), Refuse.with_code(409), Cut()])
def test_what_passes_is_tried_again_at_every_call(desk: Desk, google: Google, fault):
    desk.run("bootstrap")
    undisturbed, calls = google.state(), len(google.mutating_calls)
    assert desk.run("teardown", "--yes", "--delete-bucket").wait() == 0
    for number in range(1, 2 * calls, 2):
        google.faults.add(number, fault)
    done = desk.run("bootstrap")
    assert done.wait() == 0, done.said
    assert google.state() == undisturbed


def test_ctrl_c_says_what_goes_on_and_the_next_bootstrap_takes_it_up(desk: Desk, google: Google):
    google.delays["cluster"] = 3600
    running = desk.start("bootstrap")
    google.await_call("POST", "/clusters")
    running.interrupt()
    assert running.wait() == 1
    assert "Stopped waiting. Going on in Google Cloud:" in running.said
    assert "GKE cluster multislice" in running.said
    google.finish_all()
    google.delays.clear()
    assert desk.run("bootstrap").wait() == 0


def test_teardown_leaves_only_the_bucket(desk: Desk, google: Google):
    before = google.state()
    desk.run("bootstrap")
    done = desk.run("teardown", "--yes")
    assert done.wait() == 0, done.said
    assert "stays" in done.said
    left = {name: one for name, one in google.state().items() if name not in before}
    assert [name for name in left if "demo-bucket" not in name] == []
    assert left
    done = desk.run("teardown", "--yes", "--delete-bucket")
    assert done.wait() == 0, done.said
    assert google.state() == before


def test_teardown_asks_first(desk: Desk, google: Google):
    desk.run("bootstrap")
    before = google.state()
    assert desk.run("teardown").wait() == 1
    assert google.state() == before


def test_teardown_touches_nothing_without_the_mark(desk: Desk, google: Google):
    desk.run("bootstrap")
    network = next(name for name in google.resources if name.endswith("networks/multislice-net-1"))
    google.resources[network]["description"] = "of the other team"
    desk.run("teardown", "--yes")
    assert network in google.resources


def test_a_bucket_of_someone_else_is_told_and_nothing_is_made(desk: Desk, google: Google):
    google.add_foreign_bucket("demo-bucket")
    before = google.state()
    refused = desk.run("bootstrap")
    assert refused.wait() == 1
    assert "demo-bucket" in refused.said
    assert "Fix: " in refused.said
    assert google.state() == before


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"project": "no-such-project"}, "The project no-such-project does not exist, or you may not see it"),
        ({"zone": "us-central1-f"}, "zone us-central1-f has no ct6e-standard-4t"),
    ],
)
def test_what_google_does_not_have_is_told_and_nothing_is_made(desk: Desk, google: Google, parts, said):
    desk.write_site(**parts)
    before = google.state()
    refused = desk.run("bootstrap")
    assert refused.wait() == 1
    assert said in refused.said
    assert google.state() == before
