"""The moment at which a run begins no further update."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta


def first_moment(time_of_day: str | None, now: datetime) -> datetime | None:
    """The first time, after `now`, that it is `HH:MM` in UTC; None for no time of day."""
    if time_of_day is None:
        return None
    hours, minutes = (int(part) for part in time_of_day.split(":"))
    today = datetime.combine(now.astimezone(UTC).date(), time(hours, minutes), tzinfo=UTC)
    return today if today > now else today + timedelta(days=1)
