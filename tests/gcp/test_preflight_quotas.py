"""Preflight and quota: what the plan takes from the project, before anything is made."""

import pytest

from tests.gcp.asking import ask, make, one
from tests.gcp.sites import site


def test_chips_beyond_the_quota_are_a_problem_with_the_command_that_asks_for_more(google):
    google.quotas["us-east5 CT6E"] = 16
    found = one(ask(google, "TPU quota"), "problem")
    assert "32 v6e chips (on-demand) in us-east5 are needed" in found.found
    assert "at most 16" in found.found
    assert found.fix.splitlines()[0] == (
        "gcloud quotas preferences create --project=demo-project --quota-id=TPUS-PER-TPU-FAMILY-per-project-region "
        "--service=compute.googleapis.com --preferred-value=32 --dimensions=region=us-east5,tpu_family=CT6E"
    )


def test_another_regions_quota_is_none_of_ours(google):
    google.quotas["us-east1 CT6E"] = 0
    assert one(ask(google, "TPU quota"), "ok")


def test_the_limit_alone_is_told_where_google_does_not_tell_the_usage(google):
    assert "at most 256, how many are in use is not told" in one(ask(google, "TPU quota"), "ok").found


def test_spot_takes_from_the_preemptible_quota(google):
    google.quotas["CT6E spot"] = 8
    found = one(ask(google, "TPU quota", site(tpu={"capacity": "spot"})), "problem")
    assert "PREEMPTIBLE-TPU-V6E-per-project-region at most 8" in found.found


def test_flex_start_takes_from_the_on_demand_quota_when_the_preemptible_one_is_too_small(google):
    google.quotas["CT6E spot"] = 8
    assert one(ask(google, "TPU quota", site(tpu={"capacity": "flex-start"})), "ok")
    google.quotas["CT6E"] = 8
    assert one(ask(google, "TPU quota", site(tpu={"capacity": "flex-start"})), "problem")


def test_reserved_chips_take_no_quota(google):
    google.quotas["CT6E"] = 0
    reserved = site(tpu={"capacity": "reservation", "reservation": "ours"})
    assert one(ask(google, "TPU quota", reserved), "ok").found == "Reserved TPUs take no quota."


def test_autopilot_takes_the_same_quota_although_its_pools_are_not_ours(google):
    google.quotas["CT6E"] = 16
    assert "32 v6e chips" in one(ask(google, "TPU quota", site(cluster={"mode": "autopilot"})), "problem").found


def test_slices_that_are_there_count_against_the_limit_but_need_no_more(google):
    make(google, site(tpu={"slices": 1}))
    google.quotas["CT6E"] = 31
    found = one(ask(google, "TPU quota"), "problem")
    assert "16 v6e chips" in found.found
    assert "--preferred-value=32" in found.fix
    google.quotas["CT6E"] = 32
    assert one(ask(google, "TPU quota"), "ok")


@pytest.mark.parametrize(
    ("tpu", "zone", "quota"),
    [
        ({"type": "v4", "topology": "2x2x4"}, "us-central2-b", "TPU-PODSLICE-V4-per-project-region"),
        ({"type": "v5e", "topology": "4x4"}, "us-central1-a", "TPU-LITE-PODSLICE-V5-per-project-region"),
        ({"type": "v5p", "topology": "2x2x4"}, "us-east5-a", "TPU-V5P-per-project-region"),
        ({"type": "v7x", "topology": "2x2x4"}, "us-central1-c", "TPUS-PER-TPU-FAMILY-per-project-region"),
    ],
)
def test_each_generation_has_its_quota(google, tpu, zone, quota):
    assert quota in one(ask(google, "TPU quota", site(zone=zone, tpu=tpu)), "ok").found


def test_without_the_cloud_quotas_api_the_quota_is_not_known_and_the_command_turns_it_on(google):
    del google.resources["projects/demo-project/services/cloudquotas.googleapis.com"]
    found = one(ask(google, "TPU quota"), "warning")
    assert found.fix == "gcloud services enable cloudquotas.googleapis.com --project=demo-project"


def test_a_quota_that_may_not_be_read_is_a_warning(google):
    google.permissions = {"compute.regions.get"}
    assert "cloudquotas.quotas.get" in one(ask(google, "TPU quota"), "warning").rule


def test_the_default_pools_cpus_are_counted_with_what_is_in_use(google):
    google.quotas["us-east5 CPUS"] = 15
    found = one(ask(google, "other quotas"), "problem")
    assert found.found == "CPUS in us-east5: 16 more are needed, and 15 are left (0 of 15 in use)."
    assert "--quota-id=CPUS-per-project-region" in found.fix
    assert "--dimensions=region=us-east5" in found.fix


def test_a_regional_clusters_default_pool_is_in_three_zones(google):
    google.quotas["us-east5 CPUS"] = 47
    regional = site(cluster={"name": "multislice", "location": "region"})
    assert "48 more are needed" in one(ask(google, "other quotas", regional), "problem").found


def test_networks_are_counted_with_those_that_are_there(google):
    google.quotas["NETWORKS"] = 2
    found = one(ask(google, "other quotas"), "problem")
    assert found.found == "NETWORKS: 2 more are needed, and 1 are left (1 of 2 in use)."
    assert "--preferred-value=3" in found.fix


def test_a_node_has_an_external_address(google):
    google.quotas["IN_USE_ADDRESSES"] = 8
    assert "IN_USE_ADDRESSES in us-east5: 9 more are needed" in one(ask(google, "other quotas"), "problem").found


def test_nothing_is_needed_of_quotas_for_what_is_there(google):
    make(google, site())
    google.quotas |= {"NETWORKS": 0, "CPUS": 0}
    assert ask(google, "other quotas") == []


def test_quotas_are_read_only(google):
    ask(google, "other quotas")
    ask(google, "TPU quota")
    assert google.mutating_calls == []
