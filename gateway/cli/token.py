"""`fencegate token`: gateway tokens for principals.

A token is shown once and kept nowhere; the principals file gets its SHA-256.
"""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from gateway.cli.exits import Exit
from gateway.core.errors import Malformed, SettingsError
from gateway.core.ids import parse_name
from gateway.core.principals import Role
from gateway.wire.principals_file import load_principals, new_token, parse_expiry_ms

app = typer.Typer(help="Gateway tokens for principals.", no_args_is_help=True)


@app.callback()
def token() -> None:
    """Gateway tokens for principals."""


@app.command()
def new(
    name: Annotated[str, typer.Option(help="Who will call with it; unique in the file.")],
    role: Annotated[Role, typer.Option(help="What the principal is here for.")],
    function: Annotated[
        list[str], typer.Option(help="A function that it may use; repeat, or '*' for all.")
    ],
    destination: Annotated[
        list[str], typer.Option(help="A destination that it may reach; repeat, or '*' for all.")
    ],
    expires: Annotated[
        str | None, typer.Option(help="From when on it is worth nothing: 2027-01-01.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="The principals file to add it to; made if missing.")
    ] = None,
) -> None:
    """Make a token and show it, this once."""
    secret, digest = new_token()
    try:
        entry = _entry(name, role, digest, function, destination, expires)
        if file is not None:
            _append(file, entry)
    except (Malformed, ValueError, SettingsError) as error:
        _fail(str(error), Exit.USAGE)
    except OSError as error:
        _fail(f"{file} cannot be written: {error}; nothing was changed", Exit.USAGE)
    if file is None:
        print(secret)
        print()
        print("# for the principals file; the line above is shown only this once")
        print(_dumped(CommentedMap(principals=CommentedSeq([entry]))), end="")
    else:
        print(secret)
        typer.echo(f"added {name!r} to {file}; the token is shown only this once", err=True)


def _fail(message: str, code: Exit) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)


def _entry(
    name: str,
    role: Role,
    digest: str,
    functions: list[str],
    destinations: list[str],
    expires: str | None,
) -> CommentedMap:
    entry = CommentedMap(name=parse_name("--name", name), role=role.value, token_sha256=digest)
    entry["functions"] = _names("--function", functions)
    entry["destinations"] = _names("--destination", destinations)
    if expires is not None:
        parse_expiry_ms(expires)
        entry["expires"] = DoubleQuotedScalarString(expires)
    return entry


def _names(option: str, names: list[str]) -> CommentedSeq:
    if "*" in names and len(names) > 1:
        raise ValueError(f"{option} is '*' and {len(names) - 1} more; give '*' alone, or names")
    if names != ["*"]:
        names = [parse_name(option, name) for name in names]
    listed = CommentedSeq(DoubleQuotedScalarString(name) for name in names)
    listed.fa.set_flow_style()
    return listed


def _append(file: Path, entry: CommentedMap) -> None:
    """Add `entry` to the file, whose comments stay. The file is replaced whole or not at all:
    a server that reloads it must not meet half of it."""
    path = file.resolve()  # a link stays a link
    if path.exists():
        if any(known.name == entry["name"] for known in load_principals(path).values()):
            _fail(
                f"{file} has a principal {entry['name']!r} already; take another name, or remove "
                "its entry first. Nothing was changed",
                Exit.CONFLICT,
            )
        root: Any = _yaml().load(path.read_text(encoding="utf-8"))
    else:
        root = CommentedMap(principals=CommentedSeq())
    if not root["principals"]:  # `[]` would go on in one line
        root["principals"] = CommentedSeq()
    root["principals"].append(entry)
    _write(path, _dumped(root))


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _dumped(root: Any) -> str:
    out = io.StringIO()
    _yaml().dump(root, out)
    return out.getvalue()


def _write(path: Path, text: str) -> None:
    """Replace the file, keeping owner and mode; a new one is for its owner alone (0600)."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            if path.exists():
                was = path.stat()
                if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(out.fileno(), was.st_uid, was.st_gid)
                os.fchmod(out.fileno(), was.st_mode & 0o777)
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
