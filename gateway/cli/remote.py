"""Talking to a running gateway from the command line."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.core.errors import SettingsError, StoreError

TOKEN_VARIABLE: Final = "FENCEGATE_TOKEN"
TIMEOUT_S: Final = 30.0


class Answered(Exception):
    """The gateway said no; `problem` is what it said."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or status))
        self.status = status
        self.problem = problem


def read_token(file: Path | None) -> str | None:
    """Return the token from a file or from the environment; never from the command line,
    where every process list shows it."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE)
    try:
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise SettingsError(f"--token-file {file} cannot be read: {error}") from error


class Remote:
    """A running gateway's `/v1`."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f"--url {url!r} is not http://host:port or https://host:port")
        self._url = url.rstrip("/")
        self._token = token

    def get(self, path: str, query: Mapping[str, Any]) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        text = f"?{urllib.parse.urlencode(given)}" if given else ""
        return self._ask(urllib.request.Request(f"{self._url}{path}{text}"))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data=data, method="POST")
        request.add_header("Content-Type", "application/json")
        return self._ask(request)

    def _ask(self, request: urllib.request.Request) -> Any:
        if self._token:
            request.add_header("Fence-Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raw = error.read()
            try:
                problem = json.loads(raw)
            except ValueError:
                problem = {"detail": raw[:200].decode("utf-8", "replace")}
            raise Answered(error.code, problem) from None
        except (OSError, ValueError) as error:
            raise StoreError(
                f"the gateway at {self._url} does not answer: {error}; is it running, and is "
                "--url right?"
            ) from error
