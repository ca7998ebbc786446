"""The client is imported by workers that have nothing of the server's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
FORBIDDEN = {
    "aiohttp", "aiosqlite", "httptools", "httpx", "multidict", "orjson", "prometheus_client",
    "pydantic", "pydantic_core", "pydantic_settings", "requests", "ruamel", "sqlite3", "structlog",
    "typer", "urllib3", "uvloop", "yarl",
}
class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"the client imports {name}")
sys.meta_path.insert(0, Guard())
import gateway.client
print(sorted(m for m in sys.modules if m.startswith("gateway.") and m.count(".") == 1))
print(gateway.client.lead, gateway.client.Elector)
"""


def test_the_client_needs_nothing_but_the_standard_library():
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "['gateway.client', 'gateway.core']"


def test_the_client_exports_what_it_names():
    import gateway.client

    assert [name for name in gateway.client.__all__ if not hasattr(gateway.client, name)] == []
