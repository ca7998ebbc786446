"""Writing answers to callers. A body that was cut is never finished politely."""

from __future__ import annotations

import hashlib
from typing import Final

from aiohttp import hdrs, web
from multidict import CIMultiDict

from gateway.core.errors import LedgerUnavailable
from gateway.outbound.incoming import Incoming
from gateway.proxy.answer import Answer
from gateway.proxy.house import House
from gateway.proxy.whole import Dates, written
from gateway.store.records import AnswerState
from gateway.store.settling import StreamEnd

_NO_BODY: Final = frozenset({204, 304})
_ADDED: Final = (hdrs.CONTENT_TYPE, hdrs.SERVER)
"""What the library would say in the destination's name."""


class _Bare(web.StreamResponse):
    """A response to which the library adds no Content-Type and no Server of its own.

    The library's hook for this (`on_response_prepare`) belongs to its Application, which the
    data plane does without: it costs a sixth of the throughput.
    """

    async def _prepare_headers(self) -> None:
        added = [name for name in _ADDED if name not in self.headers]
        await super()._prepare_headers()
        for name in added:
            self.headers.popall(name, None)


class _Plain(_Bare, web.Response):
    """A body that is there whole."""


class _Stream(_Bare):
    """A body that is relayed piece by piece."""


class Relay:
    """Writes answers, and goes on reading for those that left."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._dates = Dates(house.clock)

    async def write(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        """Write `answer`; return what the server wants to have back."""
        if answer.rest is None and not answer.cut:
            closes = self._closes_behind(request)
            if (done := written(request, answer, self._dates, closes=closes)) is not None:
                return done
        headers = CIMultiDict(answer.all_headers)
        bodyless = request.method == "HEAD" or answer.status in _NO_BODY
        if answer.rest is None and not answer.cut and not bodyless:
            headers.popall(hdrs.CONTENT_LENGTH, None)
            whole = _Plain(status=answer.status, headers=headers, body=answer.body)
            self._close_behind(request, whole)
            return whole
        response = _Stream(status=answer.status, headers=headers)
        self._close_behind(request, response)
        try:
            await self._relay(request, response, answer, bodyless)
        finally:
            if answer.release is not None:
                answer.release()
        return response

    def _closes_behind(self, request: web.BaseRequest) -> bool:
        """Whether the connection ends with this answer: behind what cannot be followed by another
        request, and behind every answer of a process that is about to end."""
        return self._house.state.draining or _is_unread(request)

    def _close_behind(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        if self._closes_behind(request):
            response.force_close()

    async def _relay(
        self, request: web.BaseRequest, response: _Stream, answer: Answer, bodyless: bool
    ) -> None:
        rest = answer.rest
        digest = hashlib.sha256(answer.body)
        size = len(answer.body)
        try:
            await response.prepare(request)
            if answer.body and not bodyless:
                await response.write(answer.body)
            if rest is not None:
                async for piece in rest.chunks():
                    digest.update(piece)
                    size += len(piece)
                    await response.write(piece)
        except BaseException as error:  # the caller left: by a reset, or we were cancelled
            self._caller_left(answer, rest, digest.copy(), size)
            if isinstance(error, ConnectionError):
                return
            raise
        cut = answer.cut or (rest is not None and rest.broken is not None)
        if answer.stream_id is not None:
            self._end(answer, digest.digest(), size, whole=not cut)
        if cut:
            # Finishing the framing would present half an answer as a whole one.
            if request.transport is not None:
                request.transport.abort()
            return
        await response.write_eof()

    def nobody_waits(self, answer: Answer) -> None:
        """Look after an answer whose caller left before it came."""
        self._caller_left(answer, answer.rest, hashlib.sha256(answer.body), len(answer.body))

    def _caller_left(
        self, answer: Answer, rest: Incoming | None, digest: hashlib._Hash, size: int
    ) -> None:
        """A read is dropped. A write's answer is read on for a while: hanging up may stop what
        the destination is still doing."""
        if rest is None:
            return
        if answer.stream_id is None:
            rest.abort()
            return
        self._house.tasks.launch(self._read_on(answer, rest, digest, size), "read-on")

    async def _read_on(
        self, answer: Answer, rest: Incoming, digest: hashlib._Hash, size: int
    ) -> None:
        limit = size + 8 * self._house.replay_body_max_bytes
        async for piece in rest.chunks():
            digest.update(piece)
            size += len(piece)
            if size > limit or self._house.state.draining:
                rest.abort()
        self._end(answer, digest.digest(), size, whole=rest.complete)

    def _end(self, answer: Answer, digest: bytes, size: int, *, whole: bool) -> None:
        if answer.stream_id is None:
            return
        effect_id, n = answer.stream_id
        if not whole:
            state = AnswerState.INCOMPLETE
        elif size > self._house.replay_body_max_bytes:
            state = AnswerState.OVER_CAP
        else:
            state = AnswerState.STREAMED
        self._house.tasks.launch(
            self._note_end(StreamEnd(effect_id, n, state, digest, size)), "note-stream-end"
        )

    async def _note_end(self, end: StreamEnd) -> None:
        try:
            await self._house.ledger.end_stream(end)
        except LedgerUnavailable as error:
            # The outcome is on record already; only the size and digest are lost.
            self._house.log.warning("stream-end-not-noted", error=str(error))


def _is_unread(request: web.BaseRequest) -> bool:
    """Whether the request's body was not read, or is framed in a way that was refused: what is
    left of it is no request."""
    coding = request.headers.get(hdrs.TRANSFER_ENCODING)
    odd = coding is not None and coding.strip().lower() != "chunked"
    return odd or (request.body_exists and not request.content.at_eof())
