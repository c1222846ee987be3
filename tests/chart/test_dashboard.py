"""The dashboard shows the trainer's gauges, all of them and no others, of the run that is chosen."""

import json
import re
from typing import Any

import metrics

from tests.chart.rendering import template


def _dashboard(name: str = "demo", namespace: str = "team") -> dict[str, Any]:
    release = template(name=name, sets=["dashboard.enabled=true"], options=["--namespace", namespace])
    (text,) = release["ConfigMap dashboard"]["data"].values()
    return dict(json.loads(text))


def test_every_gauge_of_the_trainer_is_shown_and_nothing_else():
    queries = [target["expr"] for panel in _dashboard()["panels"] for target in panel["targets"]]
    shown = {gauge for query in queries for gauge in re.findall(r"ray_maxtext_(\w+)\{", query)}
    assert shown == set(metrics.GAUGES)
    assert all('{run=~"$run"}' in query for query in queries)


def test_panels_have_places_of_their_own():
    places = [panel["gridPos"] for panel in _dashboard()["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24  # Grafana's grid


def test_dashboards_of_several_releases_do_not_replace_each_other():
    dashboards = [_dashboard(), _dashboard(name="other"), _dashboard(namespace="elsewhere")]
    assert len({dashboard["uid"] for dashboard in dashboards}) == 3
    assert len({dashboard["title"] for dashboard in dashboards}) == 3
    assert all(len(dashboard["uid"]) <= 40 for dashboard in dashboards)  # what Grafana takes
