"""What a database has to offer for the ledger's operations to run on it.

They are written once, as synchronous functions over `execute`. Where two databases have to be
told the same in different words, the words are the dialect's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Protocol

from gateway.core.errors import StoreError
from gateway.core.ids import Scope
from gateway.store.wanted import Wanted


class DatabaseError(StoreError):
    """The database did not do what it was asked."""


class Conflict(DatabaseError):
    """Others were at the same rows. The transaction is undone and may simply run again."""


class ConnectionBroken(DatabaseError):
    """The connection is gone. What was committed last, and whether, is not known."""


class Result(Protocol):
    """What a statement found, or how many rows it changed."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Dialect(Protocol):
    """The forms in which many rows are handed to one statement."""

    name: str

    def inserting(
        self, head: str, rows: Sequence[Sequence[Any]], tail: str = ""
    ) -> tuple[str, Sequence[Any]]:
        """Return text and parameters of `head` (`INSERT INTO table (columns)`) for `rows`."""

    def listing(
        self, text: str, types: str, rows: Sequence[Sequence[Any]], more: Sequence[Any] = ()
    ) -> tuple[str, Sequence[Any]]:
        """Return `text` and its parameters, with `({})` standing for `rows`, called k or v, whose
        columns are called column1, column2 and so on. `types` has a letter for each of them:
        t for text, i for a number. `more` are the parameters behind the list."""


class Database(Protocol):
    """A connection. Its transactions are begun by hand: `BEGIN IMMEDIATE` and `COMMIT`."""

    @property
    def alone(self) -> bool:
        """Whether nobody else writes this ledger: what was written last is what stands there."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, text: str, parameters: Sequence[Any] = (), /) -> Result: ...

    def executemany(self, text: str, rows: Iterable[Sequence[Any]], /) -> Any: ...

    def lock(self, wanted: Wanted, /) -> None:
        """Hold what `wanted` names until the transaction ends. The clock is read after it."""

    def alone_with(self, scope: Scope, /) -> None:
        """Raise Conflict if the scope's term is about to be changed and is only shared; the next
        turn then holds it alone from the beginning."""

    def adopted(self, *, changed: bool) -> None:
        """Note that this gateway runs the policies on record; `changed` says that it has changed
        what they decide. From its commit on, gateways that run others do not get locks to write."""

    def announce(self, instance: str, scopes: Collection[Scope] | None, /) -> None:
        """Tell other gateways that `scopes` (None: any) change with this transaction, if it
        journals anything."""

    def looked_at(self, recoveries: int, /) -> None:
        """Note after how many recoveries of the ledger this gateway has looked at it. Once it is
        found to be older than it was, or was recovered since, it does not give locks to write."""

    def close(self) -> None: ...
