"""Which predefined roles to ask for, for permissions that are missing. The table is roles.yaml."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml


def role_with(permission: str) -> str:
    """The smallest, such as roles/storage.admin; empty where the table has none."""
    return next((role for role, has in _table().items() if permission in has), "")


def fewest(permissions: Iterable[str]) -> dict[str, list[str]]:
    """The smallest role for each permission, without those whose permissions come with the others anyway.

    Role to what it is asked for; under "" what no role of the table has.
    """
    wanted = sorted(permissions)
    chosen = [role for role in dict.fromkeys(map(role_with, wanted)) if role]
    for role in sorted(chosen, key=list(_table()).index):
        others = [one for one in chosen if one != role]
        if all(_one_with(permission, others) for permission in wanted if role_with(permission) == role):
            chosen = others
    asked: dict[str, list[str]] = defaultdict(list)
    for permission in wanted:
        smallest = role_with(permission)
        asked[smallest if smallest in chosen else _one_with(permission, chosen)].append(permission)
    return dict(asked)


def grant(project: str, role: str, account: str = "", bucket: str = "") -> str:
    """The command with which an administrator gives the role in the project, or in a bucket alone.

    account: an email address; a placeholder stands for one that is not known.
    """
    kind = "serviceAccount" if account.endswith(".gserviceaccount.com") else "user"
    to_whom = [f"--member={kind}:{account or 'EMAIL'}", f"--role={role}"]
    if bucket:
        return shlex.join(["gcloud", "storage", "buckets", "add-iam-policy-binding", f"gs://{bucket}", *to_whom])
    # Without a condition said, gcloud asks for one where the policy has any.
    return shlex.join(["gcloud", "projects", "add-iam-policy-binding", project, *to_whom, "--condition=None"])


def _one_with(permission: str, roles: Sequence[str]) -> str:
    return next((role for role in roles if permission in _table()[role]), "")


@cache
def _table() -> Mapping[str, Sequence[str]]:
    return dict(yaml.safe_load((Path(__file__).parent / "roles.yaml").read_text()))
