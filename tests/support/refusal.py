"""What a refusal looks like."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import topwatch as tw


@contextmanager
def refused(error: type[Exception], *patterns: str) -> Iterator[None]:
    """Expect this error, on one line, with all these patterns in it."""
    with pytest.raises(tw.TopwatchError) as caught:
        yield
    message = str(caught.value)
    assert isinstance(caught.value, error), f"{type(caught.value).__name__}: {message}"
    assert "\n" not in message
    assert 10 < len(message) < 400
    for pattern in patterns:
        assert re.search(pattern, message, re.IGNORECASE), f"{pattern!r} is not in {message!r}"
