"""Spans of time as users of the stash give them."""

from __future__ import annotations

import math
from datetime import timedelta

from dirtybus.errors import ConfigError, StashError

__all__ = ["Span", "seconds", "seconds_or_none"]

#: Seconds, or text such as ``"30m"``, or a timedelta.
Span = float | str | timedelta


def seconds(span: Span, what: str) -> float:
    """Return a span in seconds; infinity is for ever.

    Raises:
        StashError: it is no span, or not above zero.
    """
    if isinstance(span, timedelta):
        value = span.total_seconds()
    elif isinstance(span, str):
        from dirtybus.config.units import read_span  # not on top: a worker needs no settings

        try:
            value = read_span(span)
        except ConfigError as exc:
            raise StashError(f"{what}: {exc}") from None
    elif not isinstance(span, bool) and isinstance(span, int | float):
        value = float(span)
    else:
        raise StashError(f"{what} is seconds, text such as '30m', or a timedelta, not {span!r:.80}")
    if math.isnan(value) or value <= 0:
        raise StashError(f"{what} must be more than 0 s, not {span!r:.80}; math.inf is for ever")
    return value


def seconds_or_none(span: Span | None, what: str) -> float | None:
    """As `seconds`; None stays None."""
    return None if span is None else seconds(span, what)
