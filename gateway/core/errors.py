"""The few errors of the house. Refusals are values (see fence.py), not exceptions."""

from __future__ import annotations


class GatewayError(Exception):
    """Something in the gateway failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class SettingsError(GatewayError):
    """A setting cannot be used as given."""


class PolicyError(GatewayError):
    """A policy file cannot be used as written."""


class StoreError(GatewayError):
    """The ledger cannot be read or written."""


class LedgerUnavailable(StoreError):
    """The ledger could not make the decision durable; nothing was sent."""


class InvariantError(GatewayError):
    """A guard on an effect did not hold; the effect was stopped."""


class RecordLost(InvariantError):
    """The intent of an attempt is not on record: the ledger came back older than it was."""


class Malformed(GatewayError):
    """A value that the caller sent does not have its form."""
