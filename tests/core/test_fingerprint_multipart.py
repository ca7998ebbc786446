"""Multipart bodies: parts are compared, boundaries are not."""

from __future__ import annotations

import hashlib

import pytest

from gateway.core.effect import Fingerprint
from gateway.core.fingerprint import fingerprint

PART = ('form-data; name="f"; filename="a.txt"', b"content")


def body(boundary: str, *parts: tuple[str, bytes]) -> bytes:
    pieces = [
        b"--%b\r\nContent-Disposition: %b\r\n\r\n%b\r\n" % (boundary.encode(), how.encode(), what)
        for how, what in parts
    ]
    return b"".join(pieces) + b"--%b--\r\n" % boundary.encode()


def of(
    content: bytes, boundary: str | None, content_type: str = "multipart/form-data"
) -> Fingerprint:
    declared = content_type if boundary is None else f"{content_type}; boundary={boundary}"
    return fingerprint(
        method="POST",
        target="/files",
        headers=[("content-type", declared)],
        body_digest=hashlib.sha256(content).digest(),
        body=content,
    )


@pytest.mark.parametrize("parts", [(PART,), (PART, ('form-data; name="g"', b"\r\n--b\r\n"))])
def test_the_same_parts_between_other_boundaries_are_the_same_request(
    parts: tuple[tuple[str, bytes], ...],
):
    one = of(body("one-1", *parts), "one-1")

    assert one.same_request(of(body("two-2", *parts), "two-2"))
    assert one.same_request(of(body("two 2", *parts), '"two 2"'))
    assert one.same_request(of(body("two-2", *parts).removesuffix(b"\r\n"), "two-2"))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([(PART[0], b"Content")], id="content"),
        pytest.param([(PART[0].replace("a.txt", "b.txt"), PART[1])], id="file name"),
        pytest.param([(PART[0].replace('"f"', '"g"'), PART[1])], id="name"),
        pytest.param([PART, PART], id="a part more"),
        pytest.param([(PART[0] + "\r\nContent-Type: text/html", PART[1])], id="type of the part"),
        pytest.param([(PART[0], PART[1] + b"\r\n")], id="a line more"),
    ],
)
def test_parts_that_differ_make_another_request(other: list[tuple[str, bytes]]):
    assert not of(body("one", PART), "one").same_request(of(body("one", *other), "one"))
    assert not of(body("one", PART), "one").same_request(of(body("two", *other), "two"))


def test_the_order_of_the_parts_counts():
    other = ('form-data; name="g"', b"1")

    one = of(body("one", PART, other), "one")

    assert not one.same_request(of(body("two", other, PART), "two"))


def test_a_parameter_beside_the_boundary_counts():
    plain, more = "multipart/form-data", "multipart/form-data; charset=utf-8"

    one = of(body("one", PART), "one", plain)

    assert not one.same_request(of(body("one", PART), "one", more))
    assert of(body("one", PART), "one", more).same_request(of(body("two", PART), "two", more))


@pytest.mark.parametrize(
    ("content", "boundary"),
    [
        pytest.param(body("one", PART), None, id="no boundary declared"),
        pytest.param(body("one", PART), "two", id="another boundary"),
        pytest.param(body("one"), "one", id="no part"),
        pytest.param(b"preamble\r\n" + body("one", PART), "one", id="preamble"),
        pytest.param(body("one", PART) + b"epilogue", "one", id="epilogue"),
        pytest.param(body("one", PART).replace(b"--\r\n", b"\r\n"), "one", id="never closed"),
        pytest.param(body("one", (PART[0], b"x\r\n--one-two\r\n")), "one", id="a line like it"),
        pytest.param(body("one", PART, PART), "on", id="a boundary that begins a line only"),
    ],
)
def test_a_body_that_is_not_plainly_multipart_counts_as_its_bytes(
    content: bytes, boundary: str | None
):
    assert of(content, boundary).canonical is None
    assert of(content, boundary).same_request(of(content, boundary))
