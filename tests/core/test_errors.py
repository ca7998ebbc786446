"""The errors of the house explain themselves."""

from __future__ import annotations

import pytest

from gateway.core import errors
from gateway.core.errors import GatewayError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_says_its_docstring_unless_told_more(kind: type[GatewayError]):
    assert issubclass(kind, GatewayError)
    assert str(kind()) == str(kind.__doc__)
    assert str(kind("term is 0")) == "term is 0"
