"""The merged mapping is what Helm makes of the same arguments."""

import json

import pytest

from driver import chart
from driver.errors import USAGE, DriverError
from driver.merging import merged
from driver.values import Values
from tests.chart import rendering
from tests.chart.rendering import PROFILES


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_later_files_win_maps_merge_and_lists_replace(file):
    first = file("a.yaml", "a: {b: 1, c: 2}\nl: [1, 2]\n")
    second = file("b.yaml", "a: {c: 3}\nl: [4]\n")
    assert merged(Values((first, second))) == {"a": {"b": 1, "c": 3}, "l": [4]}


def test_a_set_wins_over_files_and_a_text_stays_one(file):
    found = merged(Values((file("a.yaml", "a: {b: 1}\n"),), ("a.b=2,l[1]=x",), ("t=007",), ("lit=a,b",)))
    assert found == {"a": {"b": 2}, "l": [None, "x"], "t": "007", "lit": "a,b"}


def test_a_null_stays_so_that_it_deletes_what_the_chart_has(file):
    assert merged(Values((file("a.yaml", "a: {b: null}\n"),), ("c=null",))) == {"a": {"b": None}, "c": None}


def test_no_values_are_none():
    assert merged(Values()) == {}


def test_values_that_look_like_a_manifest_are_values(file):
    text = "kind: 3\napiVersion: [x]\nmetadata: '{{ .Release.Name }} <&> ü'\nglobal: {a: 1}\n"
    assert merged(Values((file("a.yaml", text),))) == {
        "kind": 3, "apiVersion": ["x"], "metadata": "{{ .Release.Name }} <&> ü", "global": {"a": 1},
    }  # fmt: skip


def test_a_number_that_would_be_another_one_is_refused():
    with pytest.raises(DriverError, match=r"a.b is 9007199254740993[\s\S]*--set-string a.b=9007199254740993") as error:
        merged(Values(sets=("a.b=9007199254740993",)))
    assert error.value.exit_code == USAGE


@pytest.mark.parametrize("number", [2**53 + 1, 99999999999999999999, -99999999999999999999])
def test_where_the_chart_wants_a_number_text_is_no_way_out(number):
    with pytest.raises(DriverError, match=f"job.steps is {number}") as error:
        merged(Values(sets=(f"tpu.slices=2,job.steps={number}",)))
    assert error.value.fix == "a smaller number"


def test_long_digits_that_are_given_as_text_are_text():
    assert merged(Values(texts=("a=99999999999999999999",))) == {"a": "99999999999999999999"}


@pytest.mark.parametrize("said", ["a: [", "- a\n- b\n"])
def test_what_is_no_values_file_is_refused_by_its_name(file, said):
    with pytest.raises(DriverError, match=r"bad.yaml is not a values file"):
        merged(Values((file("bad.yaml", said),)))


def test_tabs_are_told_as_tabs(file):
    with pytest.raises(DriverError, match="takes no tabs"):
        merged(Values((file("bad.yaml", "a:\n\tb: 1\n"),)))


ARGUMENTS = [
    ("job.steps=1000000,worker.securityContext=null", "storage.mountOptions.file-mode=null"),
    ("job.maxtext.learning_rate=3e-5,tpu.chipsPerHost=null", "head.nodeSelector=null"),
]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("sets", ARGUMENTS, ids=["nulls", "numbers"])
def test_the_chart_makes_the_same_of_the_mapping_as_of_the_arguments(path, sets, file):
    values = Values((path,), sets)
    mapping = file("merged.json", json.dumps(merged(values)))
    direct = rendering.helm("template", "demo", str(rendering.CHART), *values.helm_arguments())
    assert rendering.helm("template", "demo", str(rendering.CHART), "--values", str(mapping)) == direct


def test_helm_3_merges_alike(file, monkeypatch):
    monkeypatch.setattr(chart, "find_helm", lambda: rendering.fetched("helm-3.16"))
    found = merged(Values((file("a.yaml", "a: {b: null, steps: 1000000}\n"),), ("c=null,d[0].e=5",)))
    assert found == {"a": {"b": None, "steps": 1000000}, "c": None, "d": [{"e": 5}]}
