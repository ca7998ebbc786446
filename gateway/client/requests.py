"""An adapter for requests, and a session that has it: for all SDKs that take a session.

    session = fence_session({"https://acme.my.salesforce.com": "salesforce"})

The SDK above keeps the destination's own URLs. `urllib3` retries below the adapter, where the
caller turned that on, send the very same fields again, so the gateway sees one key. What it
refuses is raised as an error of `gateway.client.errors`, which is no `RequestException`: SDKs
retry some of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import should_bypass_proxies

from gateway.client.command import Command, Gate, needs_reading


class FenceAdapter(HTTPAdapter):
    """Sends what a session sends to the gateway instead.

    `verify` is what the gateway's certificate is checked against, in place of what an SDK
    brings along (Stripe's brings its own authorities). Further arguments are HTTPAdapter's;
    the rest is said at `gateway.client.command.Gate`.
    """

    def __init__(
        self,
        destinations: Mapping[str, str],
        *,
        gateway: str | None = None,
        token: str | None = None,
        wait_s: int | None = None,
        verify: bool | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        # When its retries are used up, urllib3 would hide the last answer behind a RetryError.
        self.max_retries = self.max_retries.new(raise_on_status=False)
        self._gate = Gate(destinations, gateway=gateway, token=token, wait_s=wait_s)
        self._verify = verify

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        command = self._gate.command(request.method or "GET", request.url or "", request.headers)
        sent = _rewritten(request, command)
        # the session chose its proxies for the destination
        if should_bypass_proxies(command.url, (proxies or {}).get("no_proxy")):
            proxies = None
        response = super().send(
            sent,
            stream=stream,
            timeout=timeout,
            verify=verify if self._verify is None else self._verify,
            cert=cert,
            proxies=proxies,
        )
        response.request, response.url = request, request.url or response.url
        if stream and not needs_reading(response.headers):
            whole = command.when_whole(response.status_code, response.headers)
            response.raw = _Whole(response.raw, whole)
            return response
        error = command.take_answer(response.status_code, response.headers, response.content)
        if error is not None:
            raise error
        return response


def fence_session(
    destinations: Mapping[str, str],
    *,
    gateway: str | None = None,
    token: str | None = None,
    wait_s: int | None = None,
    verify: bool | str | None = None,
    **options: Any,
) -> requests.Session:
    """Return a session that reaches `destinations` through the gateway, and nothing else."""
    session = requests.Session()
    adapter = FenceAdapter(
        destinations, gateway=gateway, token=token, wait_s=wait_s, verify=verify, **options
    )
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def _rewritten(request: requests.PreparedRequest, command: Command) -> requests.PreparedRequest:
    sent = request.copy()
    sent.url = command.url
    # urllib3 makes a Host of the new URL
    fields = command.fields(pair for pair in request.headers.items() if pair[0].lower() != "host")
    sent.headers = CaseInsensitiveDict(fields)
    return sent


class _Whole:
    """An answer that is read piece by piece; tells when the last byte has come."""

    def __init__(self, raw: Any, whole: Callable[[], None]) -> None:
        self._raw = raw
        self._tell = whole
        self._told = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *args: Any, **options: Any) -> Iterator[bytes]:
        yield from self._raw.stream(*args, **options)
        self._whole()

    def read(self, amt: int | None = None, *args: Any, **options: Any) -> bytes:
        data: bytes = self._raw.read(amt, *args, **options)
        if amt is None or (amt and not data):
            self._whole()
        return data

    def _whole(self) -> None:
        if not self._told:
            self._told = True
            self._tell()
