"""One answer, from bytes to meaning; no I/O.

The parser (llhttp) splits and checks the head and decodes chunks. Where the head ends and how
many body bytes follow is counted here, so that not one byte behind an answer goes unnoticed: a
connection on which something follows the end of an answer is never used again, because whatever
it is could be taken for the answer to the next request.

Each head gets a parser of its own: nothing of one message can leak into the next.
"""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_LINE_MAX_BYTES: Final = 64 * 1024
HEAD_FIELDS_MAX: Final = 512
HEAD_MAX_BYTES: Final = 256 * 1024
"""Of everything before the body, interim answers included; and of what a chunked body may carry
between two pieces of data (extensions, trailers)."""
INTERIM_MAX: Final = 100

_NO_BODY: Final = frozenset({204, 304})
_LENGTHS: Final = frozenset(map(len, ("content-length", "transfer-encoding", "connection")))
_LINE: Final = 32  # what a field's line may have besides name and value
_CONTROLS: Final = [*range(1, 9), 11, 12, *range(14, 32), 127]
_MARKED: Final = bytes(0xFF if byte in _CONTROLS else byte for byte in range(256))
"""Some destinations have control bytes in a value, which the parser refuses and which costs no
more than a blank. They are marked with a byte that no name, number or coding may hold, so that
they harm only where they matter. CR, LF and NUL are refused."""
_HEAD, _LENGTH, _CHUNKED, _UNTIL_CLOSE, _DONE = range(5)


class Unreadable(Exception):
    """The destination's answer breaks the rules of HTTP/1.1, or our limits."""


class Reply:
    """What has come of one answer.

    `status` is 0 until the final head is there. `keep_alive` and `surplus` say whether the
    connection may carry another request. `pieces` is the body that nobody has taken yet.
    """

    __slots__ = (
        "_head_bytes", "_interim", "_left", "_line_bytes", "_odd", "_overhead_bytes", "_parser",
        "_phase", "_status", "_tail", "_to_head", "delimited", "fields", "keep_alive", "pieces",
        "reason", "size", "status", "surplus",
    )  # fmt: skip

    def __init__(self, method: str) -> None:
        self._to_head = method == "HEAD"
        self._phase = _HEAD
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._status = 0
        self._tail = b""
        self._head_bytes = 0
        self._line_bytes = 0
        self._overhead_bytes = 0
        self._interim = 0
        self._odd = False  # the head has marked bytes
        self._left = 0
        self.status = 0
        self.reason = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.delimited = True
        self.keep_alive = False
        self.surplus = False
        self.pieces: list[bytes] = []
        self.size = 0

    @property
    def done(self) -> bool:
        return self._phase == _DONE

    def feed(self, data: bytes) -> None:
        """Take what came.

        Raises:
            Unreadable: nothing more can be made of this connection.
        """
        if self._phase == _HEAD:
            data = self._feed_head(data)
            if not data:
                return
        phase = self._phase
        if phase == _LENGTH:
            left = self._left - len(data)
            if left < 0:
                self.surplus = True
                data = data[: self._left]
            self._left = left
            self._push(data)
            if left <= 0:
                self._phase = _DONE
        elif phase == _CHUNKED:
            self._feed_chunks(data)
        elif phase == _UNTIL_CLOSE:
            self._push(data)
        elif data:
            self.surplus = True

    def end_of_file(self) -> bool:
        """The peer has said all it will; return whether the answer is whole."""
        if self._phase == _UNTIL_CLOSE:
            self._phase = _DONE
        return self._phase == _DONE

    def take(self) -> bytes:
        """Return the body as far as it is here."""
        pieces = self.pieces
        if not pieces:
            return b""
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.pieces = []
        self.size = 0
        return whole

    def drop(self) -> None:
        """Let go of the parser, which points back here."""
        self._parser = None

    def _push(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)

    # -- the head

    def _feed_head(self, data: bytes) -> bytes:
        """Take the head, and any interim ones before it; return what lies behind."""
        while data:
            tail = self._tail
            if not tail and data[0] != 0x48:  # "H"; the parser would pass over line breaks
                raise Unreadable
            found = (tail + data if tail else data).find(b"\r\n\r\n")
            if found < 0:
                self._count_unfinished(data)
                self._tail = (tail + data)[-3:]
                self._parse(data)
                if self._status:
                    raise Unreadable  # the parser saw an end that we did not
                return b""
            cut = found + 4 - len(tail)
            piece = data[:cut]
            data = data[cut:]
            self._head_bytes += cut
            if self._head_bytes > HEAD_MAX_BYTES:
                raise Unreadable
            self._parse(piece)
            self._tail = b""
            self._line_bytes = 0
            if not self._status:
                raise Unreadable
            if 100 <= self._status < 200 and self._status != 101:
                self._interim_over()
            else:
                self._head_over()
                break
        return data

    def _count_unfinished(self, data: bytes) -> None:
        self._head_bytes += len(data)
        last_break = data.rfind(b"\n")
        if last_break < 0:
            self._line_bytes += len(data)
        else:
            self._line_bytes = len(data) - last_break
        if self._line_bytes > HEAD_LINE_MAX_BYTES + _LINE or self._head_bytes > HEAD_MAX_BYTES:
            raise Unreadable

    def _parse(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            raise Unreadable
        marked = data.translate(_MARKED)
        if marked != data:
            self._odd = True
        try:
            parser.feed_data(marked)
        except (HttpParserError, HttpParserUpgrade):
            if self._status != 101:  # the parser stops there; it is refused further on
                raise Unreadable from None

    def _interim_over(self) -> None:
        self._interim += 1
        if self._interim > INTERIM_MAX:
            raise Unreadable
        self._status = 0
        self.reason = b""
        self.fields.clear()
        self._parser = HttpResponseParser(self)

    def _head_over(self) -> None:
        """Find out how the body ends, and whether the connection may be used again."""
        fields = self.fields
        if len(fields) > HEAD_FIELDS_MAX:
            raise Unreadable
        if self._head_bytes > HEAD_LINE_MAX_BYTES and (
            len(self.reason) > HEAD_LINE_MAX_BYTES
            or any(len(name) + len(value) > HEAD_LINE_MAX_BYTES for name, value in fields)
        ):
            raise Unreadable
        parser = self._parser
        version = parser.get_http_version() if parser is not None else ""
        if version not in ("1.1", "1.0"):
            raise Unreadable
        length: bytes | None = None
        coding: bytes | None = None
        connection = b""
        for name, value in fields:
            if len(name) not in _LENGTHS:
                continue
            lower = name.lower()
            if lower == b"content-length":
                if length is not None or not value.isdigit():
                    raise Unreadable
                length = value
            elif lower == b"transfer-encoding":
                if coding is not None or value.lower() != b"chunked":
                    raise Unreadable
                coding = value
            elif lower == b"connection":
                connection += b"," + value.lower()
        if length is not None and coding is not None:
            raise Unreadable
        tokens = {token.strip() for token in connection.split(b",")} if connection else set()
        stays = version == "1.1" or b"keep-alive" in tokens
        self.keep_alive = stays and b"close" not in tokens
        self._frame(None if length is None else int(length), coding is not None, version)
        self.status = self._status
        if self._odd:
            self.keep_alive = False
            self.reason = self.reason.replace(b"\xff", b" ")
            self.fields = [(name, value.replace(b"\xff", b" ")) for name, value in fields]

    def _frame(self, length: int | None, chunked: bool, version: str) -> None:
        status = self._status
        if not 200 <= status <= 599:
            self.keep_alive = False
            self._phase = _DONE
        elif self._to_head or status in _NO_BODY:
            if status == 204 and (length or chunked):
                self.keep_alive = False  # it may send what it announces
            self._phase = _DONE
        elif chunked:
            if version == "1.0":
                self.keep_alive = False
            self._phase = _CHUNKED
            return  # the parser is needed on
        elif length is not None:
            self._left = length
            self._phase = _LENGTH if length else _DONE
        else:
            self.keep_alive = False
            self.delimited = False
            self._phase = _UNTIL_CLOSE
        self._parser = None

    # -- a chunked body

    def _feed_chunks(self, data: bytes) -> None:
        before = len(self.pieces)
        parser = self._parser
        if parser is None:
            raise Unreadable
        try:
            parser.feed_data(data)
        except HttpParserError:
            if self._phase != _DONE:
                raise Unreadable from None
            self.surplus = True
        tail = self._tail = (data if len(data) >= 6 else self._tail + data)[-6:]
        if self._phase == _DONE:
            # The parser passes over line breaks behind the end; the next request must not.
            if not tail.endswith(b"\r\n\r\n") or tail == b"\r\n\r\n\r\n":
                self.surplus = True
            self._parser = None
        count = len(self.pieces) - before
        if count > 1:
            self.pieces[before:] = [b"".join(self.pieces[before:])]
        if count:
            self._overhead_bytes = 0
        else:
            self._overhead_bytes += len(data)
            if self._overhead_bytes > HEAD_MAX_BYTES:
                raise Unreadable

    # -- the parser's callbacks

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase == _HEAD:  # later ones are trailers, which are nobody's
            self.fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._phase == _HEAD and self._parser is not None:
            self._status = self._parser.get_status_code()
        elif self._phase == _DONE:
            self.surplus = True

    def on_message_begin(self) -> None:
        if self._phase == _DONE:
            self.surplus = True

    def on_body(self, data: bytes) -> None:
        if self._phase == _CHUNKED:
            self._push(data)

    def on_message_complete(self) -> None:
        if self._phase == _CHUNKED:
            self._phase = _DONE
