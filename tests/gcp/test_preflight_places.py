"""Preflight and the place: zone, machines, GKE's versions, the reservation."""

from tests.gcp.asking import ask, make, one
from tests.gcp.sites import site


def test_a_zone_that_does_not_exist_names_those_near_it(google):
    found = one(ask(google, "zone", site(zone="us-east5-x")), "problem")
    assert found.found == "There is no zone us-east5-x."
    assert found.rule == "Near it there are us-east5-a, us-east5-b, us-east5-c."
    assert found.fix.startswith("zone: us-east5-a")


def test_a_misspelt_region_names_the_nearest_zones(google):
    assert "us-east5-b" in one(ask(google, "zone", site(zone="us-eats5-b")), "problem").rule


def test_a_zone_without_the_tpu_type_names_those_that_have_it_the_same_region_first(google):
    found = one(ask(google, "TPU machines", site(zone="us-east5-c")), "problem")
    assert "zone us-east5-c has no ct6e-standard-4t" in found.found
    assert found.rule.startswith("These have it: us-east5-a, us-east5-b, ")
    assert found.fix == "zone: us-east5-a in the site file"


def test_the_tpu_machines_of_the_zone_are_told_per_slice(google):
    assert one(ask(google, "TPU machines"), "ok").found == "TPU v6e 4x4: 4 x ct6e-standard-4t per slice"


def test_a_machine_type_of_the_default_pool_that_exists_nowhere_is_a_problem(google):
    found = one(ask(google, "default pool", site(cluster={"defaultPool": {"machineType": "n9-huge-1"}})), "problem")
    assert found.rule == "No zone that this project sees has n9-huge-1."


def test_autopilot_has_no_default_pool(google):
    autopilot = site(cluster={"mode": "autopilot"})
    assert one(ask(google, "default pool", autopilot), "ok")


def test_the_version_is_the_one_that_the_cluster_will_get(google):
    assert one(ask(google, "GKE version"), "ok").found == (
        "1.35.2-gke.1842000 from the regular channel (DRANET needs 1.34.1-gke.1829001)"
    )


def test_a_version_below_dranets_minimum_is_a_problem(google):
    found = one(ask(google, "GKE version", site(cluster={"version": "1.33"})), "problem")
    assert found.found == "cluster.version is 1.33, and the newest of that is 1.33.5-gke.1201000."
    assert "1.34.1-gke.1829001 or newer" in found.rule


def test_a_version_that_the_channel_does_not_offer_is_a_problem(google):
    found = one(ask(google, "GKE version", site(cluster={"version": "1.39"})), "problem")
    assert "The release channel regular has no version 1.39 here." in found.found


def test_the_version_of_a_cluster_that_is_there_is_not_chosen_again(google):
    make(google, site())
    assert "The cluster is there" in one(ask(google, "GKE version", site(cluster={"version": "1.39"})), "ok").found


def reserve(google, project="demo-project", zone="us-east5-b", **changes):
    """A reservation of eight hosts."""
    google.resources[f"projects/{project}/zones/{zone}/reservations/ours"] = {
        "name": "ours",
        "status": "READY",
        "specificReservationRequired": True,
        "shareSettings": {"shareType": "LOCAL"},
        "specificReservation": {
            "count": "8",
            "inUseCount": "0",
            "instanceProperties": {"machineType": "ct6e-standard-4t"},
        },
        **changes,
    }


RESERVED = {"capacity": "reservation", "reservation": "ours"}


def sku(**changes):
    return {"count": "8", "inUseCount": "0", "instanceProperties": {"machineType": "ct6e-standard-4t"}} | changes


def test_a_reservation_with_enough_free_machines_passes(google):
    reserve(google)
    assert (
        "8 of 8 x ct6e-standard-4t are free, 8 needed"
        in one(ask(google, "reservation", site(tpu=RESERVED)), "ok").found
    )


def test_a_reservation_that_is_not_there_is_a_problem(google):
    found = one(ask(google, "reservation", site(tpu=RESERVED)), "problem")
    assert found.found == "Reservation ours in project demo-project, zone us-east5-b: there is none."


def test_a_reservation_of_another_zone_is_none_here(google):
    reserve(google, zone="us-east5-a")
    assert one(ask(google, "reservation", site(tpu=RESERVED)), "problem")


def test_a_reservation_without_enough_free_machines_says_how_many_are_missing(google):
    reserve(google, specificReservation=sku(inUseCount="3"))
    found = one(ask(google, "reservation", site(tpu=RESERVED)), "problem")
    assert "5 of its 8 machines are free, 8 are needed" in found.found


def test_slices_that_are_there_need_no_free_machines(google):
    reserve(google)
    make(google, site(tpu={**RESERVED, "slices": 1}))
    reserve(google, specificReservation=sku(inUseCount="4"))
    assert "4 needed" in one(ask(google, "reservation", site(tpu=RESERVED)), "ok").found


def test_a_reservation_of_other_machines_is_a_problem(google):
    reserve(google, specificReservation=sku(instanceProperties={"machineType": "ct5p-hightpu-4t"}))
    assert "holds ct5p-hightpu-4t" in one(ask(google, "reservation", site(tpu=RESERVED)), "problem").found


def test_another_projects_reservation_is_looked_for_there_and_must_be_shared(google):
    google.add_project("lender-project")
    reserve(google, project="lender-project")
    lent = site(tpu={**RESERVED, "reservationProject": "lender-project"})
    found = one(ask(google, "reservation", lent), "problem")
    assert "is not shared with project demo-project" in found.found
    reserve(google, project="lender-project", shareSettings={"shareType": "SPECIFIC_PROJECTS"})
    assert one(ask(google, "reservation", lent), "ok")


def test_a_reservation_that_may_not_be_seen_is_a_warning(google):
    reserve(google)
    google.permissions = {"container.clusters.get"}
    assert "may not be looked at" in one(ask(google, "reservation", site(tpu=RESERVED)), "warning").found


def test_a_reservation_that_anyone_may_use_up_is_a_warning(google):
    reserve(google, specificReservationRequired=False)
    assert one(ask(google, "reservation", site(tpu=RESERVED)), "warning")
