"""Google's errors in the words of the driver: what was found, the rule, and what mends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError, RetryError
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, RefreshError, TransportError
from requests.exceptions import ChunkedEncodingError, ConnectionError, RequestException, SSLError, Timeout

from driver.errors import DriverError
from driver.gcp import roles

if TYPE_CHECKING:
    from driver.gcp.site import Site

GOOGLE_ERRORS = (GoogleAPIError, GoogleAuthError, RequestException)
"""All that a call of Google's clients may raise."""

EXPLAINABLE = (*GOOGLE_ERRORS, DriverError)
"""All that `explain` takes, and that a question to Google may end in."""

LOGIN = "gcloud auth application-default login"

# Conflicts are among them: what is there then decides.
_PASSING = {408, 409, 412, 429, 500, 502, 503, 504}
_CAPACITIES = {
    "on-demand": "tpu.capacity: on-demand",
    "spot": "tpu.capacity: spot (cheaper, may be preempted)",
    "flex-start": "tpu.capacity: flex-start (waits in a queue for machines, for up to seven days of work)",
    "reservation": "tpu.capacity: reservation, with tpu.reservation: NAME (machines that are kept for you)",
}
_IN_USE = re.compile(r"RESOURCE_IN_USE_BY_ANOTHER_RESOURCE|resourceInUseByAnotherResource|already being used by")
_NOT_READY = re.compile(
    r"RESOURCE_NOT_READY|resourceNotReady|is not ready|[Ii]ncompatible operation"
    r"|[Oo]peration .*(in progress|is currently)"
)
_API_OFF = re.compile(r"SERVICE_DISABLED|accessNotConfigured|has not been used in project")
_STOCKOUT = re.compile(
    r"ZONE_RESOURCE_POOL_EXHAUSTED|GCE_STOCKOUT|does not have enough resources available|resource pool exhausted", re.I
)
_QUOTA = re.compile(r"QUOTA_EXCEEDED|quotaExceeded|Quota '?\S+'? exceeded|[Ii]nsufficient (\w+ )?quota")
_RATE = re.compile(r"RATE_LIMIT_EXCEEDED|rateLimitExceeded")
_BILLING = re.compile(r"BILLING_(DISABLED|NOT)|[Bb]illing (account|must|is|has)|accountDisabled")
_NO_PROJECT = re.compile(
    r"CONSUMER_INVALID|USER_PROJECT_(DENIED|INVALID)|[Pp]roject \S+ (was )?not found|not found or deleted"
    r"|[Ff]ailed to find project|[Uu]nknown project|resource 'projects/[^/']+' was not found"
)
_PERMISSION = re.compile(r"\b([a-z]+\.[a-zA-Z]+\.[a-zA-Z]+)\b['\"]? (?:access|permission|denied)")
_PERMISSION_AFTER = re.compile(r"[Pp]ermissions?(?:\(s\))?:? ['\"]?([a-z]+\.[a-zA-Z]+\.[a-zA-Z]+)\b")
_ZONE = re.compile(r"\b[a-z]+-[a-z]+\d+-(?:ai\d+)?[a-z]\b")


def explain(error: BaseException, doing: str, site: Site | None = None) -> DriverError:
    """The error for the user. doing: what went wrong ("creating VPC network multislice-net-1").

    error: one of EXPLAINABLE; a DriverError comes back as it is. Anything else is the driver's own mistake: raised.
    """
    if isinstance(error, DriverError):
        return error
    if not isinstance(error, GOOGLE_ERRORS):
        raise error
    if isinstance(error, RetryError) and isinstance(error.cause, GOOGLE_ERRORS):
        return explain(error.cause, doing, site)
    case = _Case(error, f"{doing[:1].upper()}{doing[1:]}", _text(error), getattr(error, "code", None), site)
    return next(answer(case) for fits, answer in _ANSWERS if fits(case))


@contextmanager
def explained(doing: str, site: Site | None = None) -> Iterator[None]:
    """Raises what Google's clients raise in it as the error for the user."""
    try:
        yield
    except GOOGLE_ERRORS as error:
        raise explain(error, doing, site) from error


def said(error: Exception) -> str:
    """Google's own sentence, in one line, without the URL that the clients put before it."""
    text = error.message if isinstance(error, GoogleAPICallError) else str(error)
    return re.sub(r"^(GET|POST|PUT|PATCH|DELETE) \S+?: ", "", re.sub(r"\s+", " ", str(text))).strip()


def in_short(error: BaseException | None) -> str:
    """The same for a line of progress."""
    text = said(error) if isinstance(error, Exception) else str(error)
    return text if len(text) <= 100 else f"{text[:99]}…"


def passes(error: BaseException) -> bool:
    """Whether the same call may well succeed later, with nothing done by the user. What the call did is not known."""
    if isinstance(error, RetryError) and error.cause is not None:
        return passes(error.cause)
    if isinstance(error, GoogleAPICallError):
        if is_capacity(error):
            return False
        new_pool = "Identity Pool does not exist" in error.message
        slow_down = bool(_RATE.search(_text(error)))
        busy = is_in_use(error) or is_busy(error) or is_api_off(error)
        return error.code in _PASSING or new_pool or slow_down or busy
    if isinstance(error, SSLError):
        return False
    return isinstance(error, (TransportError, ConnectionError, ChunkedEncodingError, Timeout))


def instead_of_capacity(site: Site | None, zones: Sequence[str] = ()) -> str:
    """What to do when Google has no machines. zones: where it says that it has some."""
    capacity = site.tpu.capacity if site else ""
    nearby = f"zone: {' or '.join(zones)} (Google names it)" if zones else "zone: another one with this TPU type"
    others = "; ".join(text for name, text in _CAPACITIES.items() if name != capacity)
    return f"run the same command later, or set one of these in the site file: {nearby}; {others}"


def is_in_use(error: Exception) -> bool:
    """Whether a delete was refused because something else uses the resource."""
    return isinstance(error, GoogleAPICallError) and bool(_IN_USE.search(_text(error)))


def is_busy(error: Exception) -> bool:
    """Whether the call was refused because another operation on the resource is going on. It will pass. (REST turns
    GKE's FAILED_PRECONDITION into a plain 400, so the words have to tell.)"""
    return isinstance(error, GoogleAPICallError) and bool(_NOT_READY.search(_text(error)))


def is_capacity(error: Exception) -> bool:
    """Whether quota or machines are lacking, which does not pass by itself."""
    # The older form of errors says rateLimitExceeded for every 429, of whatever the reason is.
    text = _text(error)
    return bool(_STOCKOUT.search(text) or _QUOTA.search(text)) and "RATE_LIMIT_EXCEEDED" not in text


def is_api_off(error: Exception) -> bool:
    """Whether an API is not enabled. It is also said for some minutes after it was enabled."""
    return isinstance(error, GoogleAPICallError) and bool(_API_OFF.search(_text(error)))


@dataclass(frozen=True)
class _Case:
    error: Exception
    doing: str
    text: str
    code: int | None
    site: Site | None

    @property
    def said(self) -> str:
        return said(self.error)

    @property
    def project(self) -> str:
        return self.site.project if self.site else "PROJECT"

    @property
    def found(self) -> str:
        return f"{self.doing} failed: {self.said}"


def _text(error: Exception) -> str:
    """All that the error says, also in its machine-readable parts."""
    parts = [str(getattr(error, name, "") or "") for name in ("reason", "domain", "metadata", "errors", "details")]
    return " ".join([said(error), *parts])


def _credentials(case: _Case) -> DriverError:
    if isinstance(case.error, DefaultCredentialsError):
        return DriverError(f"There are no Google Cloud credentials: {case.said}", fix=LOGIN)
    return DriverError(
        f"{case.doing} failed, because the Google Cloud credentials are not accepted: {case.said}",
        rule="They have expired or were revoked.",
        fix=f"{LOGIN} (or a new key, where GOOGLE_APPLICATION_CREDENTIALS names the key of a service account)",
    )


def _certificate(case: _Case) -> DriverError:
    return DriverError(
        f"{case.doing} failed: {case.said}",
        rule="The certificate of the server is not trusted here.",
        fix="set REQUESTS_CA_BUNDLE to the certificates of your proxy, or correct --api-endpoint",
    )


def _unreachable(case: _Case) -> DriverError:
    return DriverError(
        f"{case.doing} failed, because Google Cloud could not be reached: {case.said}",
        rule="What was begun there goes on; the same command carries on from what is there.",
        fix="check the network, HTTPS_PROXY and --api-endpoint, then run the same command again",
    )


def _stockout(case: _Case) -> DriverError:
    here = case.site.zone if case.site else ""
    zones = sorted(set(_ZONE.findall(case.text)) - {here})
    return DriverError(
        f"{case.doing} failed, because {here or 'the zone'} has no free machines of this kind now: {case.said}",
        rule="Quota allows machines; it does not keep them free. What was made so far stays and is used next time.",
        fix=instead_of_capacity(case.site, zones),
    )


def _quota(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="The project's quota does not allow more.",
        fix=f"ask for more at https://console.cloud.google.com/iam-admin/quotas?project={case.project}, or make the "
        "site smaller (tpu.slices, tpu.topology, cluster.defaultPool)",
    )


def _api_off(case: _Case) -> DriverError:
    named = re.search(r"\b([a-z]+\.googleapis\.com)\b(?! domain)", case.text.replace("googleapis.com domain", ""))
    api = named.group(1) if named else "API.googleapis.com"
    return DriverError(
        f"{case.doing} failed, because the API {api} is not enabled in the project {case.project}.",
        rule="After it was enabled, it may take some minutes until all of Google Cloud knows.",
        fix=f"gcloud services enable {api} --project={case.project} (or driver bootstrap, which enables what it needs)",
    )


def _billing(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="A project needs a billing account before it can have machines or buckets.",
        fix=f"gcloud billing projects link {case.project} --billing-account=ACCOUNT_ID",
    )


def _no_project(case: _Case) -> DriverError:
    return DriverError(
        f"The project {case.project} does not exist, or you may not see it: {case.said}",
        rule="project in the site file is the project's ID, not its name or number.",
        fix="correct project (gcloud projects list shows those that you may see)",
    )


def _quota_project(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="Calls with your own credentials are counted against a quota project, which you must be allowed to use.",
        fix=f"gcloud auth application-default set-quota-project {case.project}",
    )


def _forbidden(case: _Case) -> DriverError:
    permissions = [*_PERMISSION.findall(case.text), *_PERMISSION_AFTER.findall(case.text)]
    wanted = list(dict.fromkeys(role for role in map(roles.role_with, permissions) if role))
    if wanted:
        fix = "; ".join(roles.grant(case.project, role) for role in wanted)
    else:
        fix = "driver preflight, which names each missing permission with the command that grants it"
    return DriverError(
        case.found,
        rule=f"It needs {', '.join(dict.fromkeys(permissions))}." if permissions else "A permission is missing.",
        fix=f"{fix} (a grant takes a minute or two to be known everywhere)" if wanted else fix,
    )


def _policy(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="A policy of your organisation forbids it.",
        fix="ask the organisation's administrator for an exception, or use a resource that exists (existing: true)",
    )


def _conflict(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="The name is taken, or someone else changed the same thing at the same time.",
        fix="run the same command again; if it says the same, choose another name in the site file",
    )


def _gone(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="What this needs is not there, or was removed while the command ran.",
        fix="run the same command again, and check the names in the site file",
    )


def _too_many(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="Google Cloud limits how many calls a project may make in a minute.",
        fix="run the same command again in a minute",
    )


def _theirs(case: _Case) -> DriverError:
    return DriverError(
        case.found,
        rule="This is a fault of Google Cloud's, which mostly passes (https://status.cloud.google.com).",
        fix="run the same command again; it carries on from what is there",
    )


def _other(case: _Case) -> DriverError:
    return DriverError(case.found, fix="driver preflight checks all that can be checked beforehand")


def _is(*kinds: type[Exception]) -> Callable[[_Case], bool]:
    return lambda case: isinstance(case.error, kinds)


def _says(pattern: re.Pattern[str]) -> Callable[[_Case], bool]:
    return lambda case: bool(pattern.search(case.text))


def _code(*codes: int) -> Callable[[_Case], bool]:
    return lambda case: case.code in codes


# The first that fits. What the text says stands before what the status says: Google uses 403 for five things.
_ANSWERS: tuple[tuple[Callable[[_Case], bool], Callable[[_Case], DriverError]], ...] = (
    (_is(RefreshError, DefaultCredentialsError), _credentials),
    (_is(SSLError), _certificate),
    (_is(TransportError, RequestException, RetryError), _unreachable),
    (_is(GoogleAuthError), _credentials),
    (_says(_STOCKOUT), _stockout),
    (_says(_QUOTA), _quota),
    (_says(_RATE), _too_many),
    (_says(_API_OFF), _api_off),
    (_says(_BILLING), _billing),
    (_says(re.compile("USER_PROJECT_DENIED")), _quota_project),
    (_says(_NO_PROJECT), _no_project),
    (_says(re.compile(r"constraints/|orgpolicy")), _policy),
    (_code(401), _credentials),
    (_code(403), _forbidden),
    (_code(404), _gone),
    (_code(409, 412), _conflict),
    (_code(429), _too_many),
    (lambda case: (case.code or 0) >= 500, _theirs),
    (lambda _: True, _other),
)
