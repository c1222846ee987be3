"""A port of a pod over a WebSocket (v4.channel.k8s.io), as kube-apiserver and the kubelet forward it.

A frame begins with its channel's number, 0 for the data and 1 for complaints; the first frame of each repeats the port.
"""

from __future__ import annotations

import base64
import hashlib
import selectors
import socket
import ssl
import struct

from websocket import ABNF, STATUS_NORMAL, frame_buffer

SUBPROTOCOL = "v4.channel.k8s.io"
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
_DATA, _ERROR = b"\x00", b"\x01"
_READ_BYTES, _FRAME_BYTES = 1 << 14, 512


def accept_key(key: str) -> str:
    """Sec-WebSocket-Accept for a Sec-WebSocket-Key."""
    return base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()


def forward(wire: socket.socket, port: int, backend: int | None) -> None:
    """Carries bytes between a WebSocket, after its handshake, and a port of loopback, until one of them is done."""
    for channel in (_DATA, _ERROR):
        wire.sendall(_frame(channel + struct.pack("<H", port)))
    try:
        if backend is None:
            raise ConnectionRefusedError
        inside = socket.create_connection(("127.0.0.1", backend), 5)
    except OSError:
        wire.sendall(_frame(_ERROR + b"error forwarding port: connection refused"))
        return
    with inside, selectors.DefaultSelector() as selector:
        for end in (wire, inside):
            selector.register(end, selectors.EVENT_READ)
        frames = frame_buffer(lambda size: _received(wire, size), skip_utf8_validation=True)
        # One thread for both directions: two must not use one TLS connection at once.
        while True:
            for key, _ in selector.select():
                done = _inwards(wire, frames, inside) if key.fileobj is wire else _outwards(inside, wire)
                if done:
                    return


def _inwards(wire: socket.socket, frames: frame_buffer, inside: socket.socket) -> bool:
    """The frames that have come; whether the caller has closed the WebSocket."""
    while True:
        frame = frames.recv_frame()
        if frame.opcode == ABNF.OPCODE_CLOSE:
            return True
        assert isinstance(frame.data, bytes)
        inside.sendall(frame.data[1:])
        # What TLS has decrypted already, no selector sees.
        if not (isinstance(wire, ssl.SSLSocket) and wire.pending()):
            return False


def _outwards(inside: socket.socket, wire: socket.socket) -> bool:
    """What the pod has said; whether it has closed the connection."""
    data = inside.recv(_READ_BYTES)
    if not data:
        wire.sendall(_frame(struct.pack(">H", STATUS_NORMAL), ABNF.OPCODE_CLOSE))
        return True
    # Several frames in one record of TLS, as they come from a proxy.
    parts = [data[at : at + _FRAME_BYTES] for at in range(0, len(data), _FRAME_BYTES)]
    wire.sendall(b"".join(_frame(_DATA + part) for part in parts))
    return False


def _frame(data: bytes, opcode: int = ABNF.OPCODE_BINARY) -> bytes:
    frame = ABNF.create_frame(data, opcode)
    frame.mask_value = 0  # only clients mask
    formatted = frame.format()
    assert isinstance(formatted, bytes)
    return formatted


def _received(wire: socket.socket, size: int) -> bytes:
    data = wire.recv(size)
    if not data:
        raise ConnectionAbortedError("the caller has gone without a word")
    return data
