"""What the kernel is told about a connection: give up in time, and do not deliver afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
from typing import Final

_USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_SOMETHING_TO_READ: Final = select.POLLIN | select.POLLHUP | select.POLLERR


def reset(transport: asyncio.WriteTransport | None) -> None:
    """Drop a connection so that nothing still buffered, here or in the kernel, is delivered.

    A polite close goes on sending what is queued; after a deadline that would be a write that
    lands when everyone believes it is over.
    """
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError, ValueError):  # closed already: nothing left to drop
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def give_up_after(transport: asyncio.BaseTransport, milliseconds: int) -> None:
    """Tell the kernel to drop the connection when sent bytes stay unacknowledged that long."""
    sock = transport.get_extra_info("socket")
    if sock is None or _USER_TIMEOUT is None:
        return
    with contextlib.suppress(OSError, ValueError):  # a dead socket shows itself at the write
        sock.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, milliseconds)


class Silent:
    """Whether the kernel holds neither an end of file nor bytes that the loop has not read yet.

    An idle connection must be silent. After a pause of this process the loop may run a request
    before it notices that the peer has hung up, or has said something nobody asked for. Only to
    be asked while the transport is open: afterwards the number of its file is another's.
    """

    __slots__ = ("_poll",)

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._poll: select.poll | None = None
        sock = transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError, ValueError):  # closed under us: not silent
                number = sock.fileno()
                self._poll = select.poll()
                self._poll.register(number, _SOMETHING_TO_READ)

    def __bool__(self) -> bool:
        try:
            return self._poll is not None and not self._poll.poll(0)
        except OSError:
            return False
