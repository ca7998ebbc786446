"""Opening a connection: names, addresses, TLS. Whatever fails here, nothing was sent."""

from __future__ import annotations

import asyncio
import errno
import functools
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Final

from aiohappyeyeballs import AddrInfoType, start_connection

from gateway.outbound.connection import Connection

HAPPY_EYEBALLS_S: Final = 0.25
"""How long one address is tried alone before the next is tried beside it (RFC 8305)."""
NAME_TTL_S: Final = 10.0
"""How long a name's addresses are remembered: `connections: fresh` would ask for each write."""
_TLS_SHUTDOWN_S: Final = 1.0


class NotDialled(Exception):
    """There is no connection. `reason` is for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Dialler:
    """Dials one host and port."""

    def __init__(self, host: str, port: int, *, secure: bool, tls: ssl.SSLContext | None) -> None:
        """`host` is a name, or an address without brackets; `tls` None means the platform's."""
        self._host = host
        self._port = port
        self._secure = secure
        self._tls = tls
        self._literal = _literal(host, port)
        self._known: list[AddrInfoType] = []
        self._known_until_s = 0.0

    async def dial(self, within_s: float, made: Callable[[], Connection]) -> Connection:
        """Raises NotDialled."""
        try:
            async with asyncio.timeout(within_s):
                return await self._dial(made)
        except TimeoutError:
            self._known = []
            raise NotDialled("connect-timeout") from None
        except socket.gaierror:
            raise NotDialled("dns") from None
        except ssl.SSLError:  # also what is wrong with a certificate
            raise NotDialled("tls") from None
        except OSError as error:
            self._known = []
            refused = error.errno == errno.ECONNREFUSED
            raise NotDialled("connect-refused" if refused else "unreachable") from None

    async def _dial(self, made: Callable[[], Connection]) -> Connection:
        loop = asyncio.get_running_loop()
        sock = await start_connection(
            await self._addresses(loop), happy_eyeballs_delay=HAPPY_EYEBALLS_S, interleave=1
        )
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self._secure:
            _, connection = await loop.create_connection(made, sock=sock)
            return connection
        try:
            tls = self._tls or await asyncio.to_thread(_platforms_trust)
        except BaseException:
            sock.close()
            raise
        _, connection = await loop.create_connection(
            made,
            sock=sock,
            ssl=tls,
            server_hostname=self._host.removesuffix("."),
            ssl_shutdown_timeout=_TLS_SHUTDOWN_S,
        )
        return connection

    async def _addresses(self, loop: asyncio.AbstractEventLoop) -> list[AddrInfoType]:
        if self._literal is not None:
            return [self._literal]
        if not self._known or loop.time() >= self._known_until_s:
            self._known = list(
                await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            )
            self._known_until_s = loop.time() + NAME_TTL_S
        return self._known


def _literal(host: str, port: int) -> AddrInfoType | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if address.version == 4:
        return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))
    if address.scope_id is not None:
        return None  # the resolver knows the number of the scope
    return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port, 0, 0))


@functools.cache
def _platforms_trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
