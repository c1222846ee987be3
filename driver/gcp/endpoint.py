"""Where Google's APIs are reached, if not at googleapis.com."""

import re
from urllib.parse import urlsplit

from driver.errors import USAGE, DriverError

_FORM = re.compile(r"(https://[^/\s?#@]+|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?)/?")


def check(url: str) -> None:
    """Raises a DriverError where it is no place for credentials.

    Plain http is for this machine itself: elsewhere, whoever listens would have the token.
    """
    if not (_FORM.fullmatch(url) and _has_a_host(url.replace("{service}", "service"))):
        raise DriverError(
            f"The API endpoint is {url!r}.",
            rule="It is https and a host, such as https://{service}-psc.p.googleapis.com, where {service} stands for "
            "the API's name; http only with 127.0.0.1 or localhost, because credentials are sent to it.",
            fix="correct --api-endpoint or MAXTEXT_MULTISLICE_API_ENDPOINT, or leave it out for Google's own",
            exit_code=USAGE,
        )


def _has_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # a host or a port that is none
        return False
