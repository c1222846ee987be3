"""`driver preflight` as a whole: who asks, of which project, and what the command prints."""

import json
import threading

import pytest
import yaml

from driver import cli
from driver.gcp import preflight
from driver.gcp.cloud import connect
from driver.gcp.findings import Subject, ok, problem
from driver.gcp.preflight import Check
from driver.gcp.prerequisites import prerequisites
from tests.gcp.asking import ask, cloud, make, one
from tests.gcp.sites import content, site


@pytest.fixture
def site_file(tmp_path, monkeypatch, google, key_file):
    """The path of the site file, in an environment that reaches the stand-in with a service account's key."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
    monkeypatch.setenv("MAXTEXT_MULTISLICE_API_ENDPOINT", google.endpoint)
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(content()))
    return path


@pytest.fixture
def run(site_file, capsys):
    """Runs `driver preflight`; gives exit code, stdout and stderr. changes: to the site file."""

    def command(*arguments, **changes):
        site_file.write_text(yaml.safe_dump(content(**changes)))
        code = cli.run(["preflight", "-c", str(site_file), *arguments])
        return code, *capsys.readouterr()

    return command


def outcomes(google, of=None, connection=None):
    wanted = of or site()
    subject = Subject(wanted, prerequisites(wanted), connection or (lambda: cloud(google)))
    return {outcome.check: outcome for outcome in preflight.run(subject)}


def test_all_is_well_in_a_project_with_everything(run):
    code, out, _ = run()
    assert code == 0
    assert "problem" not in out


def test_nothing_is_made_or_changed(run, google):
    run()
    assert google.mutating_calls == []


def test_the_table_is_readable_on_100_columns(run):
    _, out, _ = run()
    assert max(len(line) for line in out.splitlines()) <= 100


def test_a_problem_is_told_with_what_was_found_the_rule_and_the_fix(run, google):
    google.quotas["CT6E"] = 16
    code, out, _ = run()
    assert code == 1
    assert "32 v6e chips (on-demand) in us-east5 are needed" in " ".join(out.split())
    assert "1. TPU quota: 2 slices of 16 chips count against this quota of Compute Engine's." in out
    assert "\n1 problem" in out


def test_what_is_mended_in_the_same_way_is_told_once(run, google):
    make(google, site())
    for number in (1, 2):
        google.resources[f"projects/demo-project/global/networks/multislice-net-{number}"]["description"] = "theirs"
    _, out, _ = run()
    assert out.count("was not made for this") == 2
    assert out.count("What we did not make is never changed or deleted.") == 1


def test_a_command_that_mends_is_one_line_however_long(run, google):
    google.quotas["CT6E"] = 16
    _, out, _ = run()
    (line,) = [line for line in out.splitlines() if "quotas preferences create" in line]
    assert line.endswith("--dimensions=region=us-east5,tpu_family=CT6E")


def test_all_problems_are_told_at_once(run, google):
    google.quotas |= {"CT6E": 16, "CPUS": 15}
    google.resources["projects/demo-project/regions/us-east5/subnetworks/default"]["ipCidrRange"] = "10.50.0.0/20"
    _, out, _ = run("--output", "json", cluster={"name": "multislice", "version": "1.33"})
    problems = {finding["check"] for finding in json.loads(out)["checks"] if finding["status"] == "problem"}
    assert problems == {"TPU quota", "other quotas", "ranges", "GKE version"}


def test_json_has_every_check_with_its_parts(run):
    code, out, _ = run("--output", "json")
    said = json.loads(out)
    assert (code, said["project"], said["zone"], said["problems"]) == (0, "demo-project", "us-east5-b", 0)
    assert [finding["check"] for finding in said["checks"] if finding["check"] != "local tools"] == [
        check.name for check in preflight.CHECKS if check.name != "local tools"
    ]
    assert set(said["checks"][0]) == {"check", "status", "found", "rule", "fix"}


def test_warnings_alone_end_well(run):
    code, out, _ = run("--output", "json", bucket={"name": "demo-bucket", "hierarchicalNamespace": False})
    assert (code, json.loads(out)["warnings"]) == (0, 1)


def test_without_credentials_all_that_needs_them_is_not_checked(google, monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    found = outcomes(google, connection=lambda: connect("demo-project"))
    assert "gcloud auth application-default login" in one(list(found["credentials"].findings), "problem").fix
    assert found["project"].findings[0].found == "It needs the check of credentials to succeed."
    assert {outcome.findings[0].status for name, outcome in found.items() if name != "local tools"} == {
        "problem",
        "not checked",
    }


def test_credentials_that_were_revoked_are_one_problem(run, google):
    google.tokens.revoked = True
    code, out, err = run("--output", "json")
    problems = [finding for finding in json.loads(out)["checks"] if finding["status"] == "problem"]
    assert (code, len(problems)) == (1, 1)
    assert "gcloud auth application-default login" in problems[0]["fix"]
    assert "Traceback" not in err


def test_a_project_that_does_not_exist_is_one_problem(run):
    code, out, _ = run("--output", "json", project="no-such-project")
    problems = [finding for finding in json.loads(out)["checks"] if finding["status"] == "problem"]
    assert code == 1
    assert [one["found"].split(",")[0] for one in problems] == ["Project no-such-project does not exist"]


def test_an_endpoint_that_no_one_answers_is_told_without_a_stack_trace(run, monkeypatch):
    monkeypatch.setenv("MAXTEXT_MULTISLICE_API_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("driver.gcp.cloud.READS._timeout", 0.1)
    code, out, err = run()
    assert code == 1
    assert "could not be reached" in " ".join(out.split())
    assert "Traceback" not in out + err


def test_apis_that_are_off_are_no_problem_and_what_they_would_answer_is_not_checked(google):
    google.projects.clear()
    google.resources.clear()
    google.add_project("demo-project", services=("cloudresourcemanager", "serviceusage"))
    found = outcomes(google)
    assert "bootstrap turns them on" in one(list(found["APIs"].findings), "ok").found
    assert "is not enabled" in one(list(found["zone"].findings), "not checked").found
    assert "problem" not in preflight.statuses(found.values())


def test_a_project_without_a_billing_account_is_a_problem_where_it_may_be_read(google):
    assert one(ask(google, "billing"), "not checked")
    google.resources["projects/demo-project/services/cloudbilling.googleapis.com"] = {"state": "ENABLED"}
    assert one(ask(google, "billing"), "ok")
    google.resources["projects/demo-project/billingInfo"] = {"billingEnabled": False}
    assert "gcloud billing projects link demo-project" in one(ask(google, "billing"), "problem").fix


def test_after_bootstrap_it_passes_as_well(google):
    make(google, site())
    assert "problem" not in preflight.statuses(outcomes(google).values())


def test_checks_that_do_not_need_each_other_are_made_at_the_same_time(google):
    both = threading.Barrier(2, timeout=30)

    def meet(_subject):
        both.wait()
        yield ok("met")

    made = preflight.run(Subject(site(), (), lambda: cloud(google)), [Check("one", meet), Check("other", meet)])
    assert [outcome.findings[0].found for outcome in made] == ["met", "met"]


def test_what_needs_a_check_that_was_not_made_is_not_made_either(google):
    def wrong(_subject):
        yield problem("no")

    def right(_subject):
        yield ok("yes")

    checks = [Check("first", wrong), Check("second", right, ("first",)), Check("third", right, ("second",))]
    made = preflight.run(Subject(site(), (), lambda: cloud(google)), checks)
    assert [outcome.findings[0].status for outcome in made] == ["problem", "not checked", "not checked"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"zone": "us-east5-c"}, "has no ct6e-standard-4t"),
        ({"zone": "us-east5-x"}, "There is no zone us-east5-x"),
    ],
)
def test_a_wrong_place_fails(run, changes, said):
    code, out, _ = run(**changes)
    assert code == 1
    assert said in " ".join(out.split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tpu": {"type": "v6e", "topology": "5x5", "slices": 2}}, "tpu.topology is '5x5'. v6e has "),
        ({"tpu": {"type": "v6e", "topology": "4x4", "slices": 0}}, "tpu.slices is 0"),
        ({"network": {"ranges": ["10.50.0.1/16"]}}, "'10.50.0.1/16'"),
        ({"network": {"ranges": ["10.50.0.0/16", "10.50.0.0/20"]}}, "overlap"),
        ({"cluster": {"name": "a" * 38}}, "cluster.name"),
        ({"klaster": {}}, "klaster is unknown. Did you mean cluster?"),
    ],
)
def test_a_site_file_that_cannot_be_right_is_refused_before_google_is_asked(run, google, changes, said):
    code, _, err = run(**changes)
    assert code == 2
    assert said in err
    assert google.calls == []
