"""How long a server asks to wait before the next attempt."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(value: str) -> float | None:
    """Seconds from now, of a Retry-After header: a number of seconds or a date (RFC 9110, 10.2.3).

    None where it is neither.
    """
    if value.strip().isdecimal():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
