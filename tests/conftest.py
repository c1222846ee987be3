"""What all tests share: which of them run."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests that are not in the required set")
    parser.addoption(
        "--site-values",
        type=Path,
        metavar="FILE",
        help="run tests/cluster on the cluster that KUBECONFIG names, with this values file: storage that the service"
        " account `demo` of new namespaces can write, an image with Ray and MaxText, 2 slices of 2 hosts",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What was not asked for is left out; it is not reported as skipped."""
    unwanted = [] if config.getoption("--full") else ["full"]
    if config.getoption("--site-values"):
        unwanted.append("own_nodes")
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in unwanted)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
