"""Request bodies, read with Google's own message definitions: enumerations become names, unknown fields are refused."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format

from tests.gcp.errors import invalid


def read(message: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The body as that message's JSON with names in camel case. message: a class of one of the client libraries."""
    try:
        parsed = json_format.ParseDict(body, message.pb(message()))
    except json_format.ParseError as error:
        raise invalid(f"Invalid JSON payload received. {error}", "badRequest") from None
    return dict(json_format.MessageToDict(parsed))
