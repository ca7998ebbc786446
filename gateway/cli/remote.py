"""Talking to a running gateway from the command line."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from gateway.cli.exits import Exit, fail
from gateway.core.errors import SettingsError, StoreError

TOKEN_VARIABLE: Final = "FENCEGATE_TOKEN"
TIMEOUT_S: Final = 30.0
EVENTS: Final = "text/event-stream"
SILENT_S: Final = 45.0
"""A stream of events that is silent for three of its heartbeats is dead."""


class Answered(Exception):
    """The gateway said no; `problem` is what it said."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or status))
        self.status = status
        self.problem = problem


class StreamLost(StoreError):
    """A stream of events broke off; it can be taken up again behind its last event."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A gateway never sends its callers elsewhere, and the token is for nobody else."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirect)


def read_token(file: Path | None) -> str | None:
    """Return the token from a file or from the environment; never from the command line,
    where every process list shows it."""
    if file is None:
        source = TOKEN_VARIABLE
        token = os.environ.get(TOKEN_VARIABLE, "")
    else:
        source = f"--token-file {file}"
        try:
            token = file.read_text("utf-8")
        except OSError as error:
            raise SettingsError(f"{source} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise SettingsError(f"{source} is no text; it holds a gateway token alone") from None
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(f"{source} holds something else than a gateway token alone")
    return token or None


class Remote:
    """A running gateway's `/v1`."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = _checked(url)
        self._token = token

    def get(self, path: str, query: Mapping[str, Any], *, member: str) -> dict[str, Any]:
        """Return the answer, an object that has `member`."""
        return self._ask(self._request(path, query), member)

    def post(self, path: str, body: Mapping[str, Any], *, member: str) -> dict[str, Any]:
        """Return the answer, an object that has `member`."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data=data, method="POST")
        request.add_header("Content-Type", "application/json")
        return self._ask(request, member)

    def events(
        self, path: str, query: Mapping[str, Any], last_id: str | None
    ) -> Iterator[dict[str, Any]]:
        """Yield the data of each event of a stream, with its `id`, until the stream ends."""
        request = self._request(path, query)
        request.add_header("Accept", EVENTS)
        if last_id is not None:
            request.add_header("Last-Event-ID", last_id)
        with self._open(request, SILENT_S) as answer:
            if answer.headers.get_content_type() != EVENTS:
                raise StoreError(f"{self._url} does not answer as a gateway does; is --url right?")
            try:
                for line in answer:
                    if line.startswith(b"data:"):
                        yield json.loads(line.removeprefix(b"data:"))
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise StreamLost(str(error)) from error

    def _request(self, path: str, query: Mapping[str, Any]) -> urllib.request.Request:
        given = {name: value for name, value in query.items() if value is not None}
        text = f"?{urllib.parse.urlencode(given)}" if given else ""
        return urllib.request.Request(f"{self._url}{path}{text}")

    def _ask(self, request: urllib.request.Request, member: str) -> dict[str, Any]:
        with self._open(request, TIMEOUT_S) as answer:
            try:
                said = json.load(answer)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._silent(error) from error
        if not isinstance(said, dict) or member not in said:
            raise StoreError(f"{self._url} does not answer as a gateway does; is --url right?")
        return said

    def _open(self, request: urllib.request.Request, timeout_s: float) -> Any:
        if self._token:
            request.add_unredirected_header("Fence-Authorization", f"Bearer {self._token}")
        try:
            return _OPENER.open(request, timeout=timeout_s)
        except urllib.error.HTTPError as error:
            with error:
                raise Answered(error.code, _problem(error.read())) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> StoreError:
        reason = getattr(error, "reason", error)
        return StoreError(
            f"the gateway at {self._url} does not answer: {reason}; is it running, and is --url "
            "right?"
        )


def remote(url: str | None, ledger: str | None, token_file: Path | None) -> Remote | None:
    """Return the gateway to ask, None where the ledger's file is meant."""
    if url is None:
        return None
    if ledger is not None:
        fail("--url and --ledger are both given; give the one that is meant", Exit.USAGE)
    return Remote(url, read_token(token_file))


def answered(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what the gateway answers; end the command with its no."""
    try:
        return ask()
    except Answered as said:
        no(said)


def no(said: Answered) -> NoReturn:
    codes = {400: Exit.USAGE, 404: Exit.NOT_FOUND, 409: Exit.CONFLICT, 410: Exit.CONFLICT}
    code = codes.get(said.status, Exit.UNAVAILABLE if said.status >= 500 else Exit.NO)
    hint = f" Look at {TOKEN_VARIABLE} or --token-file." if said.status == 401 else ""
    fail(f"the gateway says {said.status}: {said}{hint}", code)


def path_of(what: str, *parts: str) -> str:
    """Return a path under /v1 of names as they were given. Dots would lead elsewhere."""
    for part in parts:
        if part in ("", ".", ".."):
            fail(f"there is no {what} {part!r}", Exit.NOT_FOUND)
    return "/".join(urllib.parse.quote(part, safe="") for part in parts)


def _checked(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise SettingsError(f"--url {url!r} is not http://host:port or https://host:port") from None
    if "@" in parts.netloc:  # not shown: there is a password in it
        raise SettingsError(
            f"--url holds a user or a password; give the token in {TOKEN_VARIABLE} or --token-file"
        )
    if not good or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise SettingsError(f"--url {url!r} is not http://host:port or https://host:port")
    return url.rstrip("/")


def _problem(raw: bytes) -> Mapping[str, Any]:
    try:
        problem = json.loads(raw)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        return problem
    return {"detail": raw[:200].decode("utf-8", "replace").strip()}
