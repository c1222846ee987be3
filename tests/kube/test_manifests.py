"""What an install would change."""

from driver.kube.manifests import Change, changes, shape

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}


def kinds(found: list[Change]):
    return [(one.kind, one.name, one.change) for one in found]


def test_what_is_not_there_is_created(connection):
    found = changes(connection, [], [CONFIG])
    assert kinds(found) == [("ConfigMap", "a", "created")]
    assert "+  x: '1'" in found[0].text


def test_what_is_the_same_is_not_told_whatever_the_server_added(api, connection):
    api.add("configmaps", "a", data={"x": "1"})
    assert changes(connection, [CONFIG], [CONFIG]) == []


def test_what_differs_is_told_line_by_line(api, connection):
    api.add("configmaps", "a", data={"x": "1"})
    found = changes(connection, [CONFIG], [CONFIG | {"data": {"x": "2"}}])
    assert kinds(found) == [("ConfigMap", "a", "changed")]
    assert "-  x: '1'\n+  x: '2'" in found[0].text


def test_what_others_changed_in_the_cluster_is_told_too(api, connection):
    api.add("configmaps", "a", data={"x": "by hand"})
    assert "-  x: by hand" in changes(connection, [CONFIG], [CONFIG])[0].text


def test_a_field_that_the_release_had_and_loses_is_told(api, connection):
    api.add("configmaps", "a", data={"x": "1", "y": "2"})
    found = changes(connection, [CONFIG | {"data": {"x": "1", "y": "2"}}], [CONFIG])
    assert "-  y: '2'" in found[0].text


def test_what_the_release_no_longer_has_is_deleted(api, connection):
    api.add("configmaps", "a", data={"x": "1"})
    assert kinds(changes(connection, [CONFIG], [])) == [("ConfigMap", "a", "deleted")]


def test_items_of_a_list_are_matched_by_their_name():
    live = {"containers": [{"name": "injected", "image": "i"}, {"name": "ray", "image": "r", "added": 1}]}
    wanted = {"containers": [{"name": "ray", "image": "r"}]}
    assert shape(live, [wanted])["containers"][1] == {"name": "ray", "image": "r"}


def config(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_of_objects_that_replace_one_another_only_the_difference_is_told(api, connection):
    old = config("demo-trainer-aaaaaa", same="1\n2\n3\n", other="x")
    new = config("demo-trainer-bbbbbb", same="1\n2\n3\n", other="y")
    api.add("configmaps", "demo-trainer-aaaaaa", data=old["data"])
    created, deleted = changes(connection, [old], [new])
    assert (created.change, created.replaces) == ("created", "demo-trainer-aaaaaa")
    assert "-  other: x\n+  other: y" in created.text
    assert [line for line in created.text.splitlines() if line[:1] in "+-"][2:] == ["-  other: x", "+  other: y"]
    assert (deleted.change, deleted.text) == ("deleted", "")


def test_objects_of_other_names_do_not_replace_one_another(api, connection):
    api.add("configmaps", "demo-aaaaaa", data={"x": "1"})
    assert all(not one.replaces for one in changes(connection, [config("demo-aaaaaa", x="1")], [config("b", x="1")]))


def test_of_files_that_are_created_only_the_names_are_told(connection):
    text = changes(connection, [], [config("a", **{"main.py": "import os\n" * 50})])[0].text
    assert "+  main.py: (50 lines)" in text
    assert "import os" not in text
