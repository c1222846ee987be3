"""Helm's messages in the words of someone who set a value."""

import pytest

from driver.chart import explain
from driver.errors import USAGE

SCHEMA = (
    "Error: values don't meet the specifications of the schema(s) in the following chart(s):\nmaxtext-multislice:\n"
)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("- at '/tpu': additional properties 'topologie' not allowed", "tpu.topologie. Did you mean tpu.topology?"),
        ("- tpu: Additional property topologie is not allowed", "tpu.topologie. Did you mean tpu.topology?"),
        ("- at '': additional properties 'jobs' not allowed", "jobs. Did you mean job?"),
        ("- (root): Additional property jobs is not allowed", "jobs. Did you mean job?"),
        ("- at '/job/steps': got string, want integer", "job.steps is of type string, and must be of type integer."),
        ("- at '/job/steps': minimum: got 0, want 1", "job.steps is 0; the minimum is 1."),
        ("- at '/tpu/type': value must be one of 'v4', 'v6e'", "tpu.type: value must be one of 'v4', 'v6e'."),
    ],
)
def test_a_value_that_does_not_fit_is_named_as_it_is_set(said, means):
    error = explain(f"{SCHEMA}{said}\n")
    assert error.found.endswith(means)
    assert error.exit_code == USAGE


def test_a_key_without_a_near_one_tells_what_there_is():
    assert "tpu has capacity, " in explain(f"{SCHEMA}- at '/tpu': additional properties 'xyz' not allowed\n").found


def test_all_violations_are_in_one_message():
    said = (
        "- at '/job': validation failed\n"
        "  - at '/job/maxtext': got number, want object\n"
        "  - at '/job/steps': minimum: got 0, want 1\n"
    )
    assert explain(SCHEMA + said).found.splitlines() == [
        "2 values do not fit the chart:",
        "  1. job.maxtext is of type number, and must be of type object.",
        "  2. job.steps is 0; the minimum is 1.",
    ]


def test_what_the_chart_refuses_comes_without_the_template():
    said = (
        'level=INFO msg="found symbolic link"\n'
        "Error: execution error at (maxtext-multislice/templates/rayjob.yaml:1:4): \n\n"
        "One problem in the values of demo:\n\n  1. tpu.slices is 0.\n\n\n"
        "Use --debug flag to render out invalid YAML\n"
    )
    assert explain(said).found == "One problem in the values of demo:\n\n  1. tpu.slices is 0."


@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("error converting YAML to JSON: yaml: line 3: did not find expected key", "line 3: did not find expected key"),
        ("json: cannot unmarshal array into Go value of type map[string]interface {}", "it is not a mapping of keys"),
    ],
)
def test_a_file_that_is_not_yaml_is_named(reason, means):
    error = explain(f"Error: failed to parse team.yaml: {reason}\n")
    assert error.found.startswith(f"team.yaml is not a values file: {means}")


def test_a_setting_without_a_value_is_told_how_it_looks():
    error = explain('Error: failed parsing --set data: key "foo" has no value\n')
    assert error.message == '--set: key "foo" has no value.\nIt is KEY=VALUE, as in tpu.slices=2.'


def test_anything_else_is_shown_as_helm_says_it():
    assert "unexpected EOF" in explain("Error: template: x.yaml:3: unexpected EOF\n").found
