"""What is counted, and that nobody outside can make it grow."""

import re

from gateway.web.metrics import Metrics


def value(metrics, series):
    text = metrics.render()[0].decode()
    found = re.search(rf"^fencegate_{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


def test_a_request_is_counted_with_its_times():
    metrics = Metrics(["crm"])

    metrics.request_done("crm", "forwarded", "confirmed", 0.0021, 0.08)
    metrics.request_done("crm", "refused", None, 0.001)

    labels = 'decision="forwarded",destination="crm",outcome="confirmed"'
    assert value(metrics, f"requests_total{{{labels}}}") == 1
    labels = 'decision="refused",destination="crm",outcome="none"'
    assert value(metrics, f"requests_total{{{labels}}}") == 1
    assert value(metrics, "overhead_seconds_count") == 2
    assert value(metrics, 'destination_seconds_count{destination="crm"}') == 1
    assert value(metrics, 'destination_seconds_sum{destination="crm"}') == 0.08


def test_names_from_outside_make_no_series():
    metrics = Metrics(["crm"])
    metrics.request_done("x0", "forwarded", "confirmed", 0.001, 0.1)
    before = metrics.render()[0].count(b"\n")

    for n in range(100):
        metrics.request_done(f"x{n}", "forwarded", "confirmed", 0.001, 0.1)
        metrics.request_done("crm", f"d{n}", f"o{n}", 0.001)
        metrics.refused(f"reason-{n}")
        metrics.replayed(f"x{n}")
        metrics.became_unknown(f"x{n}")

    text = metrics.render()[0].decode()
    assert text.count("\n") < before + 6
    assert "x5" not in text
    labels = 'decision="forwarded",destination="other",outcome="confirmed"'
    assert value(metrics, f"requests_total{{{labels}}}") == 101
    assert value(metrics, 'refusals_total{reason="other"}') == 100


def test_a_destination_is_known_once_its_policy_is_loaded():
    metrics = Metrics()
    metrics.became_unknown("crm")
    metrics.policy_loaded("d1", ["crm"])
    metrics.became_unknown("crm")

    assert value(metrics, 'unknown_total{destination="other"}') == 1
    assert value(metrics, 'unknown_total{destination="crm"}') == 1


def test_repetitions_that_were_held_back_count_as_double_effects_prevented():
    metrics = Metrics(["crm"])

    metrics.replayed("crm")
    metrics.refused("in-flight")
    metrics.refused("outcome-unknown")
    metrics.refused("stale-term")

    assert value(metrics, "double_effects_prevented_total") == 3
    assert value(metrics, 'replays_total{destination="crm"}') == 1
    assert value(metrics, 'refusals_total{reason="stale-term"}') == 1


def test_only_the_policy_in_force_is_shown():
    metrics = Metrics()

    metrics.policy_loaded("d1", [])
    metrics.policy_loaded("d2", [])
    metrics.policy_reload_failed()

    assert value(metrics, 'policy_info{digest="d1"}') is None
    assert value(metrics, 'policy_info{digest="d2"}') == 1
    assert value(metrics, "policy_last_reload_ok") == 0
    assert value(metrics, "policy_reload_failures_total") == 1


def test_the_rest_is_there_from_the_start():
    metrics = Metrics()
    metrics.effects_unknown.set(2)
    metrics.ledger_batch_size.observe(3)
    metrics.terms_raised.inc()

    text, content_type = metrics.render()

    assert content_type.startswith("text/plain")
    assert b"_created" not in text
    for name in (
        "effects_unknown",
        "oldest_unknown_age_seconds",
        "inflight",
        "slot_waiting",
        "terms_raised_total",
        "draining",
        "ledger_batch_size_count",
        "ledger_transaction_seconds_count",
        "ledger_lock_wait_seconds_count",
        "ledger_up",
    ):
        assert value(metrics, name) is not None, name
    assert b"process_resident_memory_bytes" in text
    assert b"process_open_fds" in text


def test_a_time_counts_into_every_bucket_that_it_does_not_exceed():
    metrics = Metrics(["crm"])

    for seconds in (0.005, 0.0051, 99.0):  # on a bound, just above it, above all of them
        metrics.request_done("crm", "forwarded", "confirmed", 0.001, seconds)

    def up_to(bound):
        return value(metrics, f'destination_seconds_bucket{{destination="crm",le="{bound}"}}')

    assert [up_to(bound) for bound in ("0.005", "0.01", "60.0", "+Inf")] == [1, 2, 2, 3]
    assert value(metrics, 'overhead_seconds_bucket{le="0.001"}') == 3
    assert value(metrics, 'overhead_seconds_bucket{le="0.0005"}') == 0
