"""What must hold of the platform before anything is forwarded."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Final

import aiohttp
from aiohttp import http_parser

from gateway.core.errors import SettingsError

OLDEST_AIOHTTP: Final = (3, 14, 4)


def check_platform() -> list[str]:
    """Refuse a platform on which framing is unsafe; return warnings about lesser matters.

    Raises:
        SettingsError: aiohttp is too old, or runs on its pure-Python parser.
    """
    numbers = tuple(int(n) for n in re.findall(r"\d+", aiohttp.__version__)[:3])
    if numbers < OLDEST_AIOHTTP:
        raise SettingsError(
            f"aiohttp {aiohttp.__version__} is too old: older versions accept ambiguous framing. "
            f"Install aiohttp {'.'.join(map(str, OLDEST_AIOHTTP))} or newer."
        )
    if http_parser.HttpRequestParser.__module__ != "aiohttp._http_parser":
        raise SettingsError(
            "aiohttp runs on its pure-Python parser, which accepts ambiguous framing. Unset "
            "AIOHTTP_NO_EXTENSIONS and install aiohttp from a binary wheel (or with a C compiler)."
        )
    warnings = []
    if sys.flags.dev_mode or _loop_debugs():
        warnings.append(
            "asyncio debug or Python's development mode is on: everything is slower, and callers' "
            "requests may be parsed differently than in production. Unset PYTHONASYNCIODEBUG and "
            "PYTHONDEVMODE."
        )
    return warnings


def _loop_debugs() -> bool:
    try:
        return asyncio.get_running_loop().get_debug()
    except RuntimeError:  # no loop runs yet; this is where the next one will look
        return bool(os.environ.get("PYTHONASYNCIODEBUG"))
