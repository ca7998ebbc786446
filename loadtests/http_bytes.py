"""The little HTTP that a load generator and a dumb upstream have to read."""

from __future__ import annotations


def body_bytes_of(head: bytes) -> int:
    """Return the Content-Length that `head` says, 0 if it says none. `head` ends in CRLF."""
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at < 0:
        return 0
    return int(head[at + 17 : head.index(b"\r\n", at + 17)])


def message_end(held: bytes | bytearray) -> int:
    """Return where the first whole answer in `held` ends, or -1 if it is not whole yet."""
    end = held.find(b"\r\n\r\n")
    if end < 0:
        return -1
    head = bytes(held[: end + 2])
    lowered = head.lower()
    if b"\r\ntransfer-encoding: chunked" in lowered:
        last = held.find(b"0\r\n\r\n", end + 4)
        return last + 5 if last >= 0 else -1
    if head[9:12] in {b"204", b"304"}:
        return end + 4
    whole = end + 4 + body_bytes_of(head)
    return whole if len(held) >= whole else -1
