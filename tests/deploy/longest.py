"""How long a request may take by the policies of a folder."""

from __future__ import annotations

from pathlib import Path

from gateway.wire.policy_file import load_policies


def longest_timeout_s(folder: Path) -> float:
    loaded = load_policies(folder, env={}, resolve_secrets=False)
    assert loaded.policies is not None, loaded.complaints
    return loaded.policies.longest_timeout_ms / 1000
