"""run.yaml is what the trainer reads: complete, typed, with paths made absolute."""

import ast
import shutil
from pathlib import Path

import data_arguments
import pytest
import run as run_file

from tests.chart.rendering import CHART, PROFILES, REPOSITORY, HelmError, template

TRAINER = REPOSITORY / "trainer"


def _read(release, folder: Path) -> run_file.Run:
    (folder / "run.yaml").write_text(release.run_file)
    return run_file.load(folder / "run.yaml")


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.stem)
def test_the_trainer_reads_every_profile(profile, tmp_path):
    run = _read(template(profile), tmp_path)
    data_arguments.validate(run.data.model_dump(by_alias=True), elastic=run.elastic.enabled)


def test_what_is_told_of_the_slices_follows_from_type_topology_and_number():
    assert template().run["tpu"] == {
        "type": "v6e",
        "topology": "4x4",
        "rayAcceleratorType": "TPU-V6E",
        "acceleratorType": "v6e-16",
        "hostsPerSlice": 4,
        "chipsPerHost": 4,
        "devicesPerChip": 1,
        "hbmGiBPerChip": 31.25,
        "peakTflopsPerChip": 918,
        "emulated": False,
    }
    elastic = template(
        sets=["elastic.enabled=true", "elastic.minSlices=2", "tpu.slices=4", "elastic.globalBatch=scale"]
    )
    assert elastic.run["slices"] == {"min": 2, "max": 4}
    assert template(sets=["tpu.slices=3"]).run["slices"] == {"min": 3, "max": 3}


@pytest.mark.parametrize(
    ("kind", "topology", "chips_per_host", "expected"),
    [
        ("v6e", "2x4", None, ("v6e-8", 2, 4)),
        ("v6e", "2x4", 8, ("v6e-8", 1, 8)),
        ("v5e", "4x4", None, ("v5litepod-16", 4, 4)),
        ("v5p", "2x2x2", None, ("v5p-16", 2, 4)),
        ("v4", "2x2x4", None, ("v4-32", 4, 4)),
        ("v7x", "2x2x1", None, ("v7x-8", 1, 4)),
        ("v5e", "1x1", None, ("v5litepod-1", 1, 1)),
    ],
)
def test_hosts_and_names_of_other_types(kind, topology, chips_per_host, expected):
    tpu = template(values={"tpu": {"type": kind, "topology": topology, "chipsPerHost": chips_per_host}}).run["tpu"]
    assert (tpu["acceleratorType"], tpu["hostsPerSlice"], tpu["chipsPerHost"]) == expected


def test_a_chip_of_v7x_is_two_devices():
    assert template(values={"tpu": {"type": "v7x", "topology": "2x2x1"}}).run["tpu"]["devicesPerChip"] == 2


def test_interfaces_are_those_of_dranet_only_where_it_is_on():
    def interfaces(*sets: str) -> str:
        return str(template(sets=sets).run["megascale"]["interfacePrefixes"])

    without = "network.dranet.enabled=false"
    assert (interfaces(), interfaces(without)) == ("eth1,eth2,lo", "")
    assert (interfaces("job.megascaleInterfaces="), interfaces(without, "job.megascaleInterfaces=eth0")) == ("", "eth0")


def test_the_run_is_named_after_the_release_and_never_after_the_time():
    assert template(name="llama").run["name"] == "llama"
    assert template(name="llama", sets=["job.runName=Other_1.2"]).run["name"] == "Other_1.2"


def test_file_patterns_are_below_the_mount_unless_absolute_or_of_a_scheme():
    values = {
        "storage": {"mountPath": "/mnt/"},
        "job": {"outputFolder": "team/runs", "compiledTrainsteps": "steps"},
        "data": {
            "kind": "grain",
            "trainFiles": "text/a-*,0.3; /other/b,0.7;gs://bucket/c",
            "evalFiles": "text/eval",
            "tokenizer": {"path": "text/tokenizer"},
        },
    }
    run = template(values=values).run
    assert run["outputDirectory"] == "/mnt/team/runs"
    assert run["compileCacheDirectory"] == "/mnt/team/runs/.compile-cache"
    assert run["compiledTrainstepsDirectory"] == "/mnt/steps"
    assert run["data"]["trainFiles"] == "/mnt/text/a-*,0.3;/other/b,0.7;gs://bucket/c"
    assert run["data"]["evalFiles"] == "/mnt/text/eval"
    assert run["data"]["tokenizer"]["path"] == "/mnt/text/tokenizer"
    hub = template(
        values={"data": {"kind": "hf", "tokenizer": {"path": "hf://a/b"}, "hf": {"path": "json", "trainFiles": "x"}}}
    )
    assert hub.run["data"]["tokenizer"]["path"] == "hf://a/b"
    assert hub.run["data"]["hf"]["trainFiles"] == "/data/x"


def test_compiled_steps_may_lie_on_any_mount_of_the_workers_and_anywhere_in_emulation():
    def folder(path: str, **values: object) -> object:
        return template(values={"job": {"compiledTrainsteps": path}, **values}).run["compiledTrainstepsDirectory"]

    assert folder("/data") == "/data"
    assert folder("/sets/x", storage={"dataMounts": {"a": {"bucket": "b", "mountPath": "/sets"}}}) == "/sets/x"
    volume = {"volumes": {"v": {"emptyDir": {}}}, "volumeMounts": {"/v/": {"name": "v"}}}
    assert folder("/v/x/", worker=volume) == "/v/x"
    assert folder("/anywhere", tpu={"emulated": True}) == "/anywhere"


@pytest.mark.parametrize("number", [1, -1, 122880, 1000000, 20000000000, 0.5, 3e-05, 1e-8, 2.5e-07, 1e30, True])
def test_numbers_keep_their_value_and_type(number):
    """Go writes 3e-05 and 1e+06, of which PyYAML makes text."""
    run = template(values={"job": {"maxtext": {"a": number}, "libtpuFlags": {"b": number}, "env": {"C": number}}}).run
    for found in (run["maxtext"]["a"], run["libtpuFlags"]["b"]):
        assert found == number
        assert type(found) is type(number) or number == 1e30
    assert run["env"]["C"] == "true" if number is True else float(run["env"]["C"]) == number


@pytest.mark.parametrize(
    "text", ["3e-05", "on", "", "a: b", "0123", "x'\"y", "line\nline", "# no comment", "{{ .Release }}"]
)
def test_text_stays_text(text):
    run = template(values={"job": {"maxtext": {"x": text}, "env": {"Z": text}}}).run
    assert (run["maxtext"]["x"], run["env"]["Z"]) == (text, text)


def test_lists_and_maps_are_arguments_as_well():
    rules = [["activation_batch", ["data", "fsdp"]], ["norm", []]]
    assert (
        template(values={"job": {"maxtext": {"logical_axis_rules": rules}}}).run["maxtext"]["logical_axis_rules"]
        == rules
    )


def test_packages_are_installed_at_the_start_of_a_run_only_without_an_image():
    assert template().run["runtimeInstall"]["packages"] == ["maxtext[tpu]==0.2.5"]
    assert template(sets=["image.uri=registry.example/trainer:1"]).run["runtimeInstall"] == {
        "packages": [],
        "options": [],
    }


def test_emulation_changes_nothing_but_what_the_run_is_told():
    real, emulated = template(), template(sets=["tpu.emulated=true"])
    assert emulated.run == {**real.run, "tpu": {**real.run["tpu"], "emulated": True}}
    assert emulated["RayCluster"] == real["RayCluster"]


def test_the_config_map_holds_the_modules_that_the_entry_point_imports():
    modules = {path.stem: path for path in TRAINER.glob("*.py")}
    needed, unread = set(), {"train"}
    while unread:
        module = unread.pop()
        needed.add(module)
        for node in ast.walk(ast.parse(modules[module].read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            unread |= {name for name in names if name in modules} - needed
    data = template()["ConfigMap"]["data"]
    assert set(data) == {"run.yaml", *(f"{module}.py" for module in needed)}
    assert {name: text for name, text in data.items() if name != "run.yaml"} == {
        f"{module}.py": modules[module].read_text() for module in needed
    }


def test_a_config_map_has_room_for_the_trainer():
    """The limit is 1 MiB; Helm's release secret has the same, for the whole chart."""
    assert sum(map(len, template()["ConfigMap"]["data"].values())) < 200_000


def test_the_pre_stop_hook_is_the_trainers_own():
    container = template().worker["containers"][0]
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["python", "-c", (TRAINER / "drain.py").read_text()]
    assert "lifecycle" not in template(sets=["worker.drainOnTermination=false"]).worker["containers"][0]


@pytest.mark.parametrize("missing", ["worker.py", "drain.py"])
def test_a_chart_without_one_of_the_trainers_files_does_not_render(missing, tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "chart", ignore=shutil.ignore_patterns("__pycache__"))
    (chart / "files" / "trainer" / missing).unlink()
    with pytest.raises(HelmError, match=f"files/trainer/{missing} is missing"):
        template(chart=chart)
