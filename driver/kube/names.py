"""What Helm takes for a release's name. The chart's own limit is narrower."""

import re

# https://github.com/helm/helm/blob/main/pkg/chart/common/util/validate.go
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 53

RULE = f"It has lower-case letters, digits and dashes, and at most {_LONGEST} of them."


def is_release(name: str) -> bool:
    """Whether Helm would install a release of this name."""
    return len(name) <= _LONGEST and _NAME.fullmatch(name) is not None
