"""What is refused, and what is only warned of, before the first request."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import http_parser

from gateway.core.errors import SettingsError
from gateway.outbound import check_platform


async def test_this_platform_is_fit() -> None:
    assert check_platform() == []


@pytest.mark.parametrize("version", ["3.14.3", "3.9.0", "2.99"])
def test_an_old_library_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(aiohttp, "__version__", version)

    with pytest.raises(SettingsError, match=version):
        check_platform()


@pytest.mark.parametrize("version", ["3.14.4", "3.14.5", "3.15.0", "4.0.0a1"])
def test_newer_libraries_are_fit(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(aiohttp, "__version__", version)

    check_platform()


def test_the_slow_parser_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_parser, "HttpRequestParser", http_parser.HttpRequestParserPy)

    with pytest.raises(SettingsError, match="AIOHTTP_NO_EXTENSIONS"):
        check_platform()


def test_debug_mode_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")

    assert "PYTHONASYNCIODEBUG" in check_platform()[0]
