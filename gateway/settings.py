"""Settings of the server: command line, then FENCEGATE_* variables, then fencegate.toml.

Durations and sizes are written with their unit (`30d`, `256KiB`) and read through properties
that say theirs (`body_retention_ms`). What cannot be used is refused at the start, all of it
at once, with the value and the way out.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gateway.core.errors import SettingsError
from gateway.core.measures import parse_duration_ms, parse_size_bytes

CONFIG_VARIABLE: Final = "FENCEGATE_CONFIG"
DEFAULT_FILE: Final = "fencegate.toml"
_PREFIX: Final = "FENCEGATE_"
_LISTEN: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]/]+)):([0-9]{1,5})\Z")
_SQLITE: Final = "sqlite:///"
_FROM_FILE: Final = re.compile(r"\$\{file:([^}]+)\}\Z")
SECRET_MIN: Final = 16


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of `127.0.0.1:8080` or `[::1]:8080`; port 0 takes a free one.

    Raises ValueError, with the value and the forms that would do.
    """
    found = _LISTEN.match(text)
    if found is None or int(found[3]) > 65535:
        raise ValueError(
            f"{text[:80]!r} is no address to listen on; write 127.0.0.1:8080 or [::1]:8080"
        )
    return found[1] or found[2], int(found[3])


class DatabaseUrl(NamedTuple):
    """A ledger on PostgreSQL. The URL has no password in it."""

    url: str


def parse_ledger(url: str) -> Path | DatabaseUrl:
    """Return the file of a SQLite URL (`sqlite:///relative`, `sqlite:////absolute`), or the URL
    of a PostgreSQL database (`postgresql://user@host,other-host/database`).

    Raises ValueError. Only the scheme of a URL is shown: it may hold a password.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme in ("postgresql", "postgres"):
        return _database_url(scheme, rest)
    if not url.startswith(_SQLITE):
        shown = f"{scheme[:20]}://…" if separator else "not a URL"
        raise ValueError(
            f"{shown} is not understood; write {_SQLITE}relative/path.db, "
            f"{_SQLITE}/absolute/path.db or postgresql://user@host/database"
        )
    path = url.removeprefix(_SQLITE)
    if path in ("", "/") or path.endswith("/"):
        raise ValueError(f"{url!r} names no file; write {_SQLITE}var/fencegate.db")
    if path == ":memory:":
        raise ValueError("a ledger in memory forgets what was sent; name a file")
    if "?" in path or "#" in path:
        raise ValueError(f"{url!r} has options; a ledger URL is a path only")
    return Path(path)


def _database_url(scheme: str, rest: str) -> DatabaseUrl:
    place, _, options = rest.partition("?")
    who, _, where = place.rpartition("@")
    database = where.partition("/")[2]
    if ":" in who or re.search(r"(?:^|&)(?:password|sslpassword)=", options):
        raise ValueError(
            f"{scheme}:// has a password in it, which everybody on this machine could read; write "
            "it to a file and name that with --ledger-password-file"
        )
    if not database and not re.search(r"(?:^|&)(?:dbname|database)=", options):
        raise ValueError(f"{scheme}:// names no database; write postgresql://user@host/database")
    return DatabaseUrl(f"postgresql://{rest}")


class Webhook(NamedTuple):
    """Where alerts are sent. `target` may hold a secret of the receiver's: it is not shown."""

    scheme: str
    host: str
    port: int
    target: str


def parse_webhook(url: str) -> Webhook:
    """Return the parts of `https://host/path`, or of `http://` to this machine.

    Raises ValueError, which never shows the path: receivers put secrets there.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    shown = f"{parts.scheme[:10]}://{host[:80]}"
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or parts.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError(f"{shown} is no place to send alerts to; write https://host/path")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError(f"{shown} has a user, a password or a fragment; write https://host/path")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(
            f"{shown} would carry alerts in the clear; write https://, or http:// to this machine"
        )
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Webhook(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), target)


def _secret(value: object) -> object:
    """A secret as it is, or `${file:path}`. What is wrong with it is said without showing it."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if not isinstance(value, str):
        raise ValueError("a secret is text")
    named = _FROM_FILE.match(value)
    if named is not None:
        try:
            value = Path(named[1]).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{named[1]!r} cannot be read: {error}") from None
    if len(value) < SECRET_MIN:
        raise ValueError(
            f"the secret has {len(value)} characters; take {SECRET_MIN} or more of chance"
        )
    return value


def _checked(parse: Any) -> AfterValidator:
    """Refuse what `parse` refuses; keep the text, which is how it is shown."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def _plain_number(value: object) -> object:
    """TOML knows numbers: a size of 1048576 needs no quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _bytes(value: object) -> object:
    return parse_size_bytes(value) if isinstance(value, str) else value


def _seconds(value: object) -> object:
    """A number is seconds; text has a unit, or is a number as the environment writes it."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        value = parse_duration_ms(value) / 1000
    if isinstance(value, float | int) and not isinstance(value, bool) and value < 0:
        raise ValueError(f"{value} s is negative; leave it out for the longest timeout + 5 s")
    return value


Duration = Annotated[str, _checked(parse_duration_ms)]
Size = Annotated[str, BeforeValidator(_plain_number), _checked(parse_size_bytes)]


class Settings(BaseSettings):
    """Every setting, with its default. Build it with `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    policies: Path = Path("policies")
    ledger: Annotated[str, _checked(parse_ledger)] = "sqlite:///var/fencegate.db"
    ledger_password_file: Path | None = None  # a database's password, apart from its URL
    witness: Path | None = None  # what was seen of the ledger; default: witness_path()
    ledger_unsafe: bool = False  # take a database that may lose what it commits
    listen: Annotated[str, _checked(parse_listen)] = "127.0.0.1:8080"
    port_file: Path | None = None  # where the port that was taken is written
    principals: Path | None = None
    dev: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    spool_dir: Path | None = None  # default: beside the ledger
    body_spool_bytes: Annotated[int, BeforeValidator(_bytes)] = (
        1024 * 1024
    )  # kept in memory up to here, in spool_dir beyond
    replay_body_max: Size = "256KiB"
    body_retention: Duration = "30d"
    keepalive_timeout: Duration = "75s"  # for a caller to send its next request
    drain_s: Annotated[float | None, BeforeValidator(_seconds)] = None
    alert_webhook: Annotated[str, _checked(parse_webhook)] | None = None
    alert_webhook_secret: Annotated[SecretStr, BeforeValidator(_secret)] | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = InitSettingsSource(settings_cls, init_kwargs=_read_file(settings_cls))
        return init_settings, env_settings, file

    def ledger_place(self) -> Path | DatabaseUrl:
        return parse_ledger(self.ledger)

    def ledger_password(self) -> str | None:
        """Return the database's password, if it is in a file. Raises SettingsError."""
        if self.ledger_password_file is None:
            return None
        try:
            return self.ledger_password_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"ledger_password_file: {str(self.ledger_password_file)!r} cannot be read: {error}"
            ) from None

    def spool_path(self) -> Path:
        place = self.ledger_place()
        beside = place.parent if isinstance(place, Path) else Path("var")
        return self.spool_dir or beside / "spool"

    def witness_path(self) -> Path:
        """Return where this gateway remembers its ledger: beside a ledger's file; for a database
        in var/, by the database and the address, for each gateway needs one of its own."""
        place = self.ledger_place()
        if self.witness is not None:
            return self.witness
        if isinstance(place, Path):
            return place.with_name(place.name + ".witness")
        mark = hashlib.sha256(f"{place.url} {self.listen}".encode()).hexdigest()[:12]
        return Path("var") / f"ledger-{mark}.witness"

    def listen_address(self) -> tuple[str, int]:
        return parse_listen(self.listen)

    @property
    def replay_body_max_bytes(self) -> int:
        return parse_size_bytes(self.replay_body_max)

    @property
    def body_retention_ms(self) -> int:
        return parse_duration_ms(self.body_retention)

    @property
    def keepalive_timeout_s(self) -> float:
        return parse_duration_ms(self.keepalive_timeout) / 1000

    def drain_for_s(self, longest_timeout_ms: int) -> float:
        """How long to wait for what is under way when shutting down."""
        return longest_timeout_ms / 1000 + 5 if self.drain_s is None else self.drain_s

    def check_serving(self) -> None:
        """Refuse what a server must not start with. Raises SettingsError with all of it."""
        wrong: list[str] = []
        host, _ = self.listen_address()
        if self.dev and not is_loopback(host):
            wrong.append(
                f"--dev lets everybody do everything, so it listens on loopback only, not on "
                f"{self.listen}; listen on 127.0.0.1, or give a principals file in place of --dev"
            )
        if not self.dev and self.principals is None:
            wrong.append(
                "no principals file: nobody could call. Make one with 'fencegate token new --file "
                "principals.yaml …' and start with --principals principals.yaml; or try things "
                "out on this machine with --dev"
            )
        if self.ledger_unsafe and isinstance(self.ledger_place(), Path):
            wrong.append(
                "ledger_unsafe is given for a ledger in a file, which loses nothing that it "
                "commits; leave it out"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("tls_cert", "tls_key") if self.tls_cert else ("tls_key", "tls_cert")
            wrong.append(f"{given} is given without {missing}; give both, or neither")
        if self.alert_webhook is not None and self.alert_webhook_secret is None:
            wrong.append(
                "alert_webhook is given without alert_webhook_secret: nobody could tell an alert "
                f"from a forged one; set {_PREFIX}ALERT_WEBHOOK_SECRET"
            )
        for name in ("principals", "tls_cert", "tls_key"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                wrong.append(f"{name}: there is no file {str(path)!r}")
        if wrong:
            raise SettingsError("\n".join(wrong))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_settings(**given: object) -> Settings:
    """Return the settings; of `given` (the command line) what is not None comes first.

    Raises SettingsError with every complaint and where each value came from.
    """
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**chosen)
    except ValidationError as error:
        told = (_complaint(dict(each), chosen) for each in error.errors())
        raise SettingsError("\n".join(told)) from None


def _complaint(error: dict[str, Any], chosen: dict[str, object]) -> str:
    name = str(error["loc"][0]) if error["loc"] else "settings"
    if error["type"] == "extra_forbidden":
        known = ", ".join(sorted(Settings.model_fields))
        return f"{_place(name, chosen)} is not a setting; known are {known}"
    if error["type"] == "value_error":
        return f"{_place(name, chosen)}: {error['ctx']['error']}"
    if "secret" in name:
        return f"{_place(name, chosen)}: {error['msg']}"
    return f"{_place(name, chosen)} is {error['input']!r}: {error['msg']}"


def _place(name: str, chosen: dict[str, object]) -> str:
    if name in chosen:
        return f"--{name.replace('_', '-')}"
    if os.environ.get(_PREFIX + name.upper()):
        return _PREFIX + name.upper()
    return f"{_file_path()}: {name!r}"


def _file_path() -> Path:
    return Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_FILE)


def _read_file(settings_cls: type[BaseSettings]) -> dict[str, Any]:
    path = _file_path()
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if os.environ.get(CONFIG_VARIABLE):
            raise SettingsError(f"{CONFIG_VARIABLE}: there is no file {str(path)!r}") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from error
    return read
