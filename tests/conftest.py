"""What holds for all tests."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    # A shell starts what runs in the background with Ctrl-C ignored, and every process inherits
    # that: those that a test interrupts would go on for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
