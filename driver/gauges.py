"""The run's gauges as Ray's metrics endpoints export them (docs/progress.md)."""

from prometheus_client.parser import text_string_to_metric_families

SECONDS = 1.0  # Ray exports them no more often
_PREFIX = "ray_maxtext_"


def parse(text: str) -> dict[str, float]:
    """The gauges by name without their prefix (`step`, `loss`, ...); empty where there are none.

    text: what an endpoint answers. That is some thousand lines, of which only the run's are parsed.
    """
    lines = "\n".join(line for line in text.splitlines() if _PREFIX in line)
    return {
        sample.name.removeprefix(_PREFIX): sample.value
        for family in text_string_to_metric_families(lines + "\n")
        for sample in family.samples
    }
