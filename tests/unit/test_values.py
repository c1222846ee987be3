"""Values as they are handed to Helm."""

from pathlib import Path

import pytest

from driver import resources
from driver.errors import USAGE, DriverError
from driver.values import Values, find_file, release_name


def test_values_keep_helms_order():
    values = Values((Path("a.yaml"), Path("b.yaml")), ("x=1",), ("y=2",)).but("x=3", literals=("z=a,b",))
    assert values.helm_arguments() == [
        *("--values", "a.yaml", "--values", "b.yaml"),
        *("--set", "x=1", "--set", "x=3", "--set-string", "y=2", "--set-literal", "z=a,b"),
    ]


@pytest.mark.parametrize("name", ["tiny", "tiny.yaml"])
def test_a_profile_goes_by_its_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_file(name) == resources.values_dir() / "tiny.yaml"


def test_a_file_wins_over_a_profile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text("tpu: {slices: 3}\n")
    assert find_file("tiny.yaml") == Path("tiny.yaml")


def test_a_missing_file_names_the_nearest_profile():
    with pytest.raises(DriverError, match="There is no values file values/tinny.yaml") as raised:
        find_file("values/tinny.yaml")
    assert (raised.value.fix, raised.value.exit_code) == ("-f tiny", USAGE)


def test_a_folder_is_no_values_file(tmp_path):
    with pytest.raises(DriverError, match="is a folder"):
        find_file(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("values/tiny.yaml", "tiny"),
        ("My_Run.v2.yaml", "my-run-v2"),
        ("_.yaml", "local"),
        (f"{'a' * 60}.yaml", "a" * 34),
    ],
)
def test_a_release_is_named_after_its_first_values_file(file, name):
    assert release_name((Path(file), Path("other.yaml"))) == name


def test_a_release_without_values_files_has_a_name():
    assert release_name(()) == "local"
