"""Times are read strictly."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ingest.times import parse_time, time_or_none
from schemas.errors import LineError

NOON = datetime(2026, 9, 21, 14, 13, 20, 500_000, tzinfo=UTC)  # 1_790_000_000.5 seconds after 1970


@pytest.mark.parametrize(
    "value",
    [
        "2026-09-21T14:13:20.5Z",
        "2026-09-21T16:13:20.500+02:00",
        1_790_000_000.5,
        1_790_000_000_500,
        1_790_000_000_500_000,
        "1790000000500000000",
        "1790000000.5",
    ],
)
def test_offsets_and_epochs_say_the_same_time(value):
    """ISO 8601 with an offset, and epoch numbers in any unit."""
    assert parse_time(value, "ts") == NOON


@pytest.mark.parametrize(
    "value",
    [
        "2026-09-21T14:13:20",
        "2026-09-21",
        "22/09/2026 09:00",
        "",
        "yesterday",
        41,
        -1.0,
        float("nan"),
        1e300,
        "1.79E+09",
    ],
)
def test_a_time_without_zone_or_sense_is_refused(value):
    """Nobody knows whose local time it is."""
    with pytest.raises(LineError) as caught:
        parse_time(value, "event_time")
    assert caught.value.reason == "bad_time"
    assert "event_time" in caught.value.message


@pytest.mark.parametrize("value", [None, "", 0, 0.0, "0"], ids=repr)
def test_exporters_write_no_time_in_several_ways(value):
    """Null, an empty text and 0 say nothing."""
    assert time_or_none(value, "startTime") is None


@pytest.mark.parametrize("value", [True, False, [], {}], ids=repr)
def test_what_is_neither_text_nor_number_is_no_time(value):
    """A truth is no 0."""
    with pytest.raises(LineError) as caught:
        time_or_none(value, "startTime")
    assert (caught.value.reason, time_or_none("1790000000.5", "startTime")) == ("bad_time", NOON)
