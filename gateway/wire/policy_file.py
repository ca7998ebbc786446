"""Policy files: a folder of YAML in, one PolicySet out, or every complaint at once."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from gateway.core.errors import PolicyError
from gateway.core.policy import Destination, Function, PolicySet
from gateway.wire.policy_build import Source, build_file
from gateway.wire.policy_complaint import Complaint, Sheet
from gateway.wire.policy_login import Secrets
from gateway.wire.policy_yaml import read_yaml

__all__ = ["Complaint", "Loaded", "load_policies", "policy_files", "read_destination"]

Built = TypeVar("Built", Destination, Function)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder gave. `policies` is None if there is any error among the complaints."""

    policies: PolicySet | None
    complaints: tuple[Complaint, ...] = ()
    files: tuple[str, ...] = ()
    secret_files: tuple[Path, ...] = ()

    @property
    def errors(self) -> tuple[Complaint, ...]:
        return tuple(one for one in self.complaints if one.severity == "error")

    @property
    def warnings(self) -> tuple[Complaint, ...]:
        return tuple(one for one in self.complaints if one.severity == "warning")


def policy_files(folder: Path) -> list[Path]:
    """Return the folder's policy files in the order of their names.

    Raises PolicyError if the folder cannot be read.
    """
    try:
        found = [
            path
            for path in folder.iterdir()
            if path.suffix in {".yaml", ".yml"} and not path.name.startswith(".")
        ]
    except OSError as error:
        raise PolicyError(
            f"the policy folder {str(folder)!r} cannot be read: {error.strerror}; "
            "name the folder that holds your *.yaml policies"
        ) from None
    return sorted(found, key=lambda path: path.name)


def load_policies(
    folder: Path,
    *,
    env: Mapping[str, str],
    resolve_secrets: bool = True,
    today: date | None = None,
) -> Loaded:
    """Read every policy file of `folder`. Without `today`, the age of facts is not judged.

    Raises PolicyError if the folder itself cannot be read; all else is a complaint.
    """
    secrets = Secrets(folder, env, resolve_secrets)
    sources: list[Source] = []
    built: list[tuple[Source, Destination | Function]] = []
    for path in policy_files(folder):
        source, found = _load_file(path, secrets, today)
        sources.append(source)
        if found is not None:
            built.append((source, found))
    destinations = _by_name("destination", Destination, built)
    functions = _by_name("function", Function, built)
    if len(built) == len(sources):  # else a function may be missing only because its file is bad
        _complain_of_strangers(built, functions)
    complaints = [one for source in sources for one in sorted(source.sheet.complaints)]
    if not sources:
        message = "there is no *.yaml file here; write a policy, or name another folder"
        complaints.append(Complaint(str(folder), 1, 1, "warning", message))
    policies = None
    if not any(one.severity == "error" for one in complaints):
        policies = PolicySet(
            MappingProxyType(destinations), MappingProxyType(functions), _digest(sources)
        )
    return Loaded(
        policies,
        tuple(complaints),
        tuple(source.name for source in sources),
        tuple(sorted(secrets.files)),
    )


def read_destination(
    name: str, text: str, folder: Path, env: Mapping[str, str]
) -> Destination | None:
    """Read one destination's policy from its text, as it was when an effect was sent.

    `folder` is where its secret files are named from. None where it cannot be read any more:
    it was good once, so what is missing is a secret.
    """
    raw = text.encode()
    document = read_yaml(name, raw)
    source = Source(name, raw, document.sheet)
    if document.data is None:
        return None
    built = build_file(document.data, source, Secrets(folder, env, True), None)
    failed = any(one.severity == "error" for one in source.sheet.complaints)
    return built if isinstance(built, Destination) and not failed else None


def _load_file(
    path: Path, secrets: Secrets, today: date | None
) -> tuple[Source, Destination | Function | None]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        sheet = Sheet(str(path))
        sheet.error((), f"the file cannot be read: {error.strerror}; mend it or take it away")
        return Source(path.name, b"", sheet), None
    document = read_yaml(str(path), raw)
    source = Source(path.name, raw, document.sheet)
    if document.data is None and document.sheet.failed:
        return source, None
    return source, build_file(document.data, source, secrets, today)


def _by_name(
    word: str, kind: type[Built], built: list[tuple[Source, Destination | Function]]
) -> dict[str, Built]:
    """Return what is of `kind` by its name; a name that is there twice is complained about."""
    named: dict[str, Built] = {}
    for source, found in built:
        if not isinstance(found, kind):
            continue
        first = named.setdefault(found.name, found)
        if first is not found:
            source.sheet.error(
                (word,),
                f"{word}: {found.name!r} is described in {first.file} already; "
                "rename this one, or remove a file",
            )
    return named


def _complain_of_strangers(
    built: list[tuple[Source, Destination | Function]], functions: Mapping[str, Function]
) -> None:
    for source, found in built:
        for name in sorted(getattr(found, "functions", None) or ()):
            if name not in functions:
                close = difflib.get_close_matches(name, functions, n=1, cutoff=0.6)
                hint = f"did you mean {close[0]}?" if close else f"write function: {name} in a file"
                source.sheet.warning(("functions",), f"functions: {name!r} has no file; {hint}")


def _digest(sources: list[Source]) -> str:
    """SHA-256 over names and bytes, each with its length: the files, never their secrets."""
    digest = hashlib.sha256()
    for source in sources:
        for part in (source.name.encode(), source.raw):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
