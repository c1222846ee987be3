"""What a test makes the server refuse: rights that are missing, and answers that come in place of the right ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.kube.server.calls import Call, StatusError
from tests.kube.server.kinds import KINDS, Address

USER = "alice@example.com"


@dataclass
class Refusal:
    """Refuses the calls of a method (empty: of any) whose target has a part; left: so many, None for all."""

    code: int
    message: str
    method: str = ""
    part: str = ""
    left: int | None = None

    def __call__(self, call: Call) -> None:
        """Raises a StatusError."""
        if self.left == 0 or self.method not in ("", call.method) or self.part not in call.target:
            return
        if self.left is not None:
            self.left -= 1
        raise StatusError(self.code, self.message)


class Faults:
    """denied: (verb, resource) that RBAC refuses; a resource may be pods/log. hooks: called with each call before it
    is answered; they may change the cluster, or raise a StatusError.
    """

    def __init__(self) -> None:
        self.denied: set[tuple[str, str]] = set()
        self.hooks: list[Callable[[Call], None]] = []

    def refuse(
        self, code: int, message: str = "refused", *, method: str = "", part: str = "", times: int | None = None
    ) -> Refusal:
        """From now on, until it is taken from `hooks`."""
        made = Refusal(code, message, method, part, times)
        self.hooks.append(made)
        return made

    def check_call(self, call: Call) -> None:
        """Raises a StatusError."""
        for hook in list(self.hooks):
            hook(call)

    def check_right(self, verb: str, at: Address) -> None:
        """Raises a StatusError, in RBAC's words."""
        if (verb, at.resource) not in self.denied:
            return
        where = f'in the namespace "{at.namespace}"' if at.namespace else "at the cluster scope"
        named = f'{at.plural} "{at.name}"' if at.name else at.plural
        raise StatusError(
            403,
            f'{named} is forbidden: User "{USER}" cannot {verb} resource "{at.resource}" in API group '
            f'"{KINDS[at.plural].group}" {where}',
        )
