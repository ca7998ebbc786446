"""Settings: where they come from, and what is refused."""

from pathlib import Path

import pytest

from gateway.core.errors import SettingsError
from gateway.settings import DatabaseUrl, Settings, load_settings


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FENCEGATE_CONFIG", raising=False)
    for name in Settings.model_fields:
        monkeypatch.delenv("FENCEGATE_" + name.upper(), raising=False)


def complaint_of(**given):
    with pytest.raises(SettingsError) as refused:
        load_settings(**given).check_serving()
    return str(refused.value)


def test_without_anything_said_the_defaults_hold():
    settings = load_settings()

    assert settings.policies == Path("policies")
    assert settings.ledger_place() == Path("var/fencegate.db")
    assert settings.spool_path() == Path("var/spool")
    assert settings.listen_address() == ("127.0.0.1", 8080)
    assert settings.body_spool_bytes == 1024 * 1024
    assert settings.replay_body_max_bytes == 256 * 1024
    assert settings.body_retention_ms == 30 * 86_400_000
    assert settings.keepalive_timeout_s == 75
    assert settings.drain_for_s(30_000) == 35


def test_the_command_line_beats_the_environment_which_beats_the_file(monkeypatch):
    Path("fencegate.toml").write_text(
        'listen = "127.0.0.1:1"\nlog_level = "error"\nbody_retention = "1d"\ndev = true\n'
    )
    monkeypatch.setenv("FENCEGATE_LISTEN", "127.0.0.1:2")
    monkeypatch.setenv("FENCEGATE_LOG_LEVEL", "debug")
    monkeypatch.setenv("FENCEGATE_PRINCIPALS", "")

    settings = load_settings(listen="127.0.0.1:3", policies=None)

    assert settings.listen == "127.0.0.1:3"
    assert settings.log_level == "debug"
    assert settings.body_retention_ms == 86_400_000
    assert settings.dev
    assert settings.principals is None
    assert settings.policies == Path("policies")


def test_the_file_may_stand_elsewhere(monkeypatch, tmp_path):
    (tmp_path / "other.toml").write_text("replay_body_max = 1024\ndrain_s = 7\n")
    monkeypatch.setenv("FENCEGATE_CONFIG", str(tmp_path / "other.toml"))

    settings = load_settings()

    assert settings.replay_body_max_bytes == 1024
    assert settings.drain_for_s(30_000) == 7


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('lisen = "x"\nledgr = "y"\n', "fencegate.toml: 'lisen' is not a setting; known are"),
        ('listen = "8080"\n', "fencegate.toml: 'listen': '8080' is no address"),
        ("listen = \n", "fencegate.toml is not TOML"),
        ("dev = 7\n", "fencegate.toml: 'dev' is 7"),
        ('body_retention = "30"\n', "'30' is not a duration; write"),
        ("body_retention = 30\n", "'body_retention' is 30"),
        ('replay_body_max = "1.5MiB"\n', "'1.5MiB' is not a size"),
        ("drain_s = -1\n", "-1 s is negative"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(text, complaint):
    Path("fencegate.toml").write_text(text)

    assert complaint in complaint_of()


def test_all_complaints_come_at_once_and_say_where_from(monkeypatch):
    Path("fencegate.toml").write_text('lisen = "x"\n')
    monkeypatch.setenv("FENCEGATE_LOG_LEVEL", "loud")

    said = complaint_of(listen="nowhere").splitlines()

    assert len(said) == 3
    assert any(line.startswith("--listen: 'nowhere'") for line in said)
    assert any(line.startswith("FENCEGATE_LOG_LEVEL is 'loud'") for line in said)
    assert any("'lisen'" in line for line in said)


def test_a_named_file_must_be_there(monkeypatch):
    monkeypatch.setenv("FENCEGATE_CONFIG", "none.toml")

    assert "FENCEGATE_CONFIG: there is no file 'none.toml'" in complaint_of()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///a.db", "a.db"),
        ("sqlite:///var/a.db", "var/a.db"),
        ("sqlite:////var/a.db", "/var/a.db"),
    ],
)
def test_a_sqlite_url_names_a_file(url, path):
    assert load_settings(ledger=url).ledger_place() == Path(path)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgresql://u:hunter2@db/x", "postgresql:// has a password in it"),
        ("postgres://db/x?password=hunter2", "--ledger-password-file"),
        ("mysql://u:hunter2@db/x", "mysql://… is not understood"),
        ("postgresql://u@db", "names no database"),
        ("sqlite://a.db", "is not understood"),
        ("var/a.db", "not a URL"),
        ("sqlite:///", "names no file"),
        ("sqlite:///var/", "names no file"),
        ("sqlite:///:memory:", "forgets"),
        ("sqlite:///a.db?mode=ro", "options"),
    ],
)
def test_another_ledger_url_is_refused_without_its_password(url, complaint):
    said = complaint_of(ledger=url)

    assert complaint in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "rest", ["u@db/x", "u@one:5432,two:5433/x?sslmode=verify-full", "u@/x?host=/run/postgresql"]
)
def test_a_database_is_named_with_as_many_hosts_as_it_has(rest):
    for scheme in ("postgresql", "postgres"):
        settings = load_settings(ledger=f"{scheme}://{rest}")

        assert settings.ledger_place() == DatabaseUrl(f"postgresql://{rest}")
        assert settings.spool_path() == Path("var/spool")


def test_a_databases_password_is_read_from_its_file(tmp_path):
    file = tmp_path / "password"
    file.write_text("hunter2\n")

    settings = load_settings(ledger="postgresql://u@db/x", ledger_password_file=file)

    assert settings.ledger_password() == "hunter2"
    assert "hunter2" not in repr(settings)
    file.unlink()
    with pytest.raises(SettingsError, match="cannot be read"):
        settings.ledger_password()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:8080", ("::1", 8080)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_an_address_has_host_and_port(text, address):
    assert load_settings(listen=text).listen_address() == address


@pytest.mark.parametrize("text", ["", ":8080", "8080", "::1:8080", "h:65536", "h:", "http://h:1"])
def test_another_address_is_refused(text):
    assert "no address to listen on" in complaint_of(listen=text)


def test_without_principals_the_way_out_is_shown():
    said = complaint_of()

    assert "fencegate token new" in said
    assert "--dev" in said


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80", "gate:80"])
def test_dev_listens_on_loopback_only(listen):
    assert "loopback only, not on " + listen in complaint_of(dev=True, listen=listen)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.9.9.9:1", "[::1]:0", "localhost:0"])
def test_dev_on_loopback_may_start(listen):
    load_settings(dev=True, listen=listen).check_serving()


def test_tls_needs_both_halves_and_files_that_are_there():
    said = complaint_of(dev=True, tls_cert="cert.pem")

    assert "tls_cert is given without tls_key" in said
    assert "tls_cert: there is no file 'cert.pem'" in said
    assert "principals: there is no file 'p.yaml'" in complaint_of(principals="p.yaml")


def test_with_principals_the_server_may_listen_anywhere():
    Path("p.yaml").write_text("principals: []\n")

    load_settings(principals="p.yaml", listen="0.0.0.0:8080").check_serving()


@pytest.mark.parametrize(("said", "seconds"), [("35s", 35), ("1m", 60), ("0.5", 0.5), (0, 0)])
def test_the_drain_time_is_seconds_or_a_duration(said, seconds):
    assert load_settings(drain_s=said).drain_for_s(30_000) == seconds
