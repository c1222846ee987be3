"""Secrets in Kubernetes' binary format, which Helm writes them in. It reads them as JSON too.

The fields' numbers: https://github.com/kubernetes/api/blob/master/core/v1/generated.proto
"""

from __future__ import annotations

import base64
from typing import Any

import proto

_MAGIC = b"k8s\0"


class _Unknown(proto.Message):
    raw = proto.Field(proto.BYTES, number=2)


class _ObjectMeta(proto.Message):
    name = proto.Field(proto.STRING, number=1)
    namespace = proto.Field(proto.STRING, number=3)
    labels = proto.MapField(proto.STRING, proto.STRING, number=11)


class _Secret(proto.Message):
    metadata = proto.Field(_ObjectMeta, number=1)
    data = proto.MapField(proto.STRING, proto.BYTES, number=2)
    type_ = proto.Field(proto.STRING, number=3)


def secret(body: bytes) -> dict[str, Any]:
    """The secret as JSON has it; empty where the body is not in the binary format."""
    if not body.startswith(_MAGIC):
        return {}
    found = _Secret.deserialize(_Unknown.deserialize(body.removeprefix(_MAGIC)).raw)
    metadata = {"name": found.metadata.name, "namespace": found.metadata.namespace}
    return {
        "metadata": metadata | {"labels": dict(found.metadata.labels)},
        "type": found.type_,
        "data": {key: base64.b64encode(value).decode() for key, value in found.data.items()},
    }
