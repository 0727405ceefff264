"""Outcomes in CSV files: what makes a header, and the traps of spreadsheets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.csv_settings import CsvSettings
from ingest.formats.outcome_csv import CsvReader
from ingest.line import Line
from ingest.outcome import Outcome
from ingest.words import WordSettings
from schemas.errors import LineError

HEADER = b"event_id,trace_id,name,value,source_kind,source,scorer_version,event_time"
ROW = b"e1,t1,refund_correct,1,program,checker,1,2026-11-22T09:00:00Z"
DESK_HEADER, DESK_ROW = b"ticket_id;ask_id;outcome;closed_at;csat", b"T-41;ask-41;resolved;22/09/2026 09:00;4,5"
DESK = CsvSettings(
    columns={"ticket_id": "event_id", "ask_id": "business_key", "outcome": "label", "closed_at": "event_time"},
    constants={"name": "ticket_outcome", "source_kind": "human", "source": "desk"},
    timezone="Europe/Berlin",
    date_format="%d/%m/%Y %H:%M",
)
WORDS = WordSettings(labels={"ticket_outcome": {"resolved": 1}})


def line(text: bytes, *, is_terminated: bool = True) -> Line:
    """A line of a file."""
    return Line(0, len(text), text, is_terminated)


def read(header: bytes, *rows: bytes, settings: CsvSettings | None = None) -> list[Outcome]:
    """The outcomes of a file with this header and these rows."""
    reader = CsvReader(settings, WORDS)
    reader.begin(b"")
    assert reader.is_header(header)
    assert reader.read(line(header)) is None
    return [outcome for row in rows for outcome in reader.read(line(row)) or ()]


def reason_of(header: bytes, row: bytes, settings: CsvSettings | None = None) -> str:
    """Why a row is refused."""
    with pytest.raises(LineError) as caught:
        read(header, row, settings=settings)
    return caught.value.reason


@pytest.mark.parametrize("delimiter", [b",", b";", b"\t"])
def test_the_delimiter_is_found_from_the_header(delimiter):
    """Whichever knows most names."""
    (outcome,) = read(HEADER.replace(b",", delimiter), ROW.replace(b",", delimiter))
    assert (outcome.trace_id, outcome.value, outcome.source) == ("t1", 1.0, "checker")
    assert outcome.event_time == datetime(2026, 11, 22, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "first",
    [
        b"[1]",
        b"5",
        b"{}",
        b'{"name":"x","value":1}',
        b"<html>",
        b"value",
        b"name of the server, value",
        b"upstream error; name unknown",
        b"\xff,name,value",
        b'name,"value',
        DESK_HEADER,
    ],
)
def test_a_first_line_that_names_no_two_fields_is_no_header(first):
    """A proxy's error page must not make a file of JSON lines a CSV file."""
    assert not CsvReader().is_header(first)


def test_a_desk_file_is_read_by_its_settings():
    """09:00 in Berlin in September is 07:00 UTC; resolved is worth 1; csat is not asked for."""
    (outcome,) = read(DESK_HEADER, DESK_ROW, settings=DESK)
    assert (outcome.event_id, outcome.business_key, outcome.name) == ("T-41", "ask-41", "ticket_outcome")
    assert (outcome.value, outcome.label, outcome.source_kind, outcome.source) == (1.0, "resolved", "human", "desk")
    assert outcome.event_time == datetime(2026, 9, 22, 7, tzinfo=UTC)


def test_a_decimal_comma_is_read_where_the_settings_say_so_and_nowhere_else():
    """4,5 is four and a half; 4.500 may then be thousands, and is refused."""
    comma = CsvSettings(decimal=",")
    header = HEADER.replace(b",", b";")
    rows = {
        text: ROW.replace(b",", b";").replace(b";1;program", b";" + text + b";program") for text in (b"4,5", b"4.500")
    }
    assert read(header, rows[b"4,5"], settings=comma)[0].value == 4.5
    assert reason_of(header, rows[b"4.500"], comma) == "bad_value"
    assert reason_of(header, rows[b"4,5"]) == "bad_value"


def test_a_comma_decimal_needs_no_quotes_where_the_comma_parts_nothing():
    """Quoted in a comma file, bare in another."""
    quoted = ROW.replace(b",1,program", b',"0,5",program')
    assert read(HEADER, quoted, settings=CsvSettings(decimal=","))[0].value == 0.5


def test_a_local_time_is_refused_unless_its_zone_is_stated():
    """And one that the zone has twice or never is refused all the same."""
    local = ROW.replace(b"2026-11-22T09:00:00Z", b"%s")
    berlin = CsvSettings(timezone="Europe/Berlin")
    assert reason_of(HEADER, local % b"2026-11-22 09:00") == "bad_time"
    assert read(HEADER, local % b"2026-11-22 09:00", settings=berlin)[0].event_time == datetime(
        2026, 11, 22, 8, tzinfo=UTC
    )
    assert reason_of(HEADER, local % b"2026-10-25 02:30", berlin) == "bad_time"  # twice: put back at 03:00
    assert reason_of(HEADER, local % b"2026-03-29 02:30", berlin) == "bad_time"  # never: put forward at 02:00
    east = CsvSettings(timezone="+05:30")
    assert read(HEADER, local % b"2026-10-25 02:30", settings=east)[0].event_time.hour == 21
    stated = read(HEADER, local % b"2026-10-25T02:30:00+02:00", settings=berlin)
    assert stated[0].event_time == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


@given(st.datetimes(datetime(2001, 1, 1), datetime(2037, 1, 1)))  # noqa: DTZ001 - a local time
def test_any_local_time_is_its_one_utc_time_or_refused(moment):
    """Read back in its zone it is what the file wrote."""
    moment = moment.replace(microsecond=0)
    row = ROW.replace(b"2026-11-22T09:00:00Z", moment.isoformat(" ").encode())
    zone = ZoneInfo("Europe/Berlin")
    try:
        (outcome,) = read(HEADER, row, settings=CsvSettings(timezone="Europe/Berlin"))
    except LineError:
        there = {moment.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        assert len(there) == 2
    else:
        assert outcome.event_time.astimezone(zone).replace(tzinfo=None) == moment


def test_epoch_times_are_seconds_whatever_the_settings_say_of_zones():
    """Twelve digits that Python would read as a date of the year 1790 are milliseconds."""
    row = ROW.replace(b"2026-11-22T09:00:00Z", b"%s")
    zoned = CsvSettings(timezone="Europe/Berlin")
    assert read(HEADER, row % b"1790121200", settings=zoned)[0].event_time.timestamp() == 1790121200
    assert read(HEADER, row % b"1790121200123", settings=zoned)[0].event_time.timestamp() == 1790121200.123
    assert reason_of(HEADER, row % b"20260922") == "bad_time"


@pytest.mark.parametrize("text", [b"2026-09-22T09:00:00Z", b"09/22/2026 09:00", b"31/02/2026 09:00", b"22/09/2026"])
def test_a_stated_form_of_times_is_the_only_one(text):
    """A month is no day."""
    assert reason_of(DESK_HEADER, DESK_ROW.replace(b"22/09/2026 09:00", text), DESK) == "bad_time"


@pytest.mark.parametrize("cell", [b"1.79E+09", b"1E+15", b"2.5e12"])
def test_an_id_that_a_spreadsheet_rounded_is_refused(cell):
    """It is the id of many."""
    assert reason_of(HEADER, ROW.replace(b"t1", cell)) == "bad_field"
    assert reason_of(HEADER, ROW.replace(b"e1", cell)) == "bad_field"


def test_a_label_without_a_number_is_refused_and_a_blank_value_beside_one_is_too():
    """Only a blank cell alone withdraws."""
    header = HEADER + b",label"
    blank = ROW.replace(b",1,program", b",,program")
    assert read(header, blank + b",")[0].value is None
    assert reason_of(header, blank + b",shrug") == "bad_value"
    assert reason_of(DESK_HEADER, DESK_ROW.replace(b"resolved", b"shrug"), DESK) == "bad_value"


def test_a_header_that_lacks_a_field_rejects_its_rows_and_says_what_to_state():
    """Two known names make a header; more are needed for a row."""
    assert reason_of(b"trace_id,value", b"t1,1") == "schema_unknown"
    assert reason_of(HEADER + b",name", ROW + b",x") == "schema_unknown"
    with pytest.raises(LineError, match=r"logs\.csv"):
        read(b"trace_id,value", b"t1,1")


def test_constants_stand_only_where_the_file_has_no_column():
    """A file with columns of ours is read as it is."""
    (outcome,) = read(HEADER, ROW, settings=DESK.model_copy(update={"date_format": None}))
    assert (outcome.name, outcome.source) == ("refund_correct", "checker")


def test_a_cell_with_a_line_break_is_refused():
    """Each line is one event."""
    assert reason_of(HEADER, ROW.replace(b"checker", b'"check')) == "bad_field"
    assert reason_of(HEADER, ROW + b",more") == "bad_field"


def test_a_row_or_header_without_its_newline_waits():
    """0.5 may be the beginning of 0.55."""
    reader = CsvReader()
    for text in (HEADER, ROW):
        with pytest.raises(LineError) as caught:
            reader.read(line(text, is_terminated=False))
        assert caught.value.reason == "truncated_tail"
        reader.begin(HEADER + b"\n")


def test_a_file_that_grew_keeps_its_columns():
    """Its header is in the part that was read before."""
    reader = CsvReader()
    reader.begin(b"\n" + HEADER + b"\r\n" + ROW + b"\r\n")
    assert reader.has_header
    assert reader.read(line(ROW + b"\r"))[0].trace_id == "t1"


@given(st.data())
def test_any_order_copies_and_split_of_rows_give_the_same_outcomes(data):
    """The set of identities is that of the rows."""
    rows = [ROW.replace(b"t1", b"t%d" % n).replace(b",1,program", b",%d,program" % (n % 2)) for n in range(8)]
    expected = {outcome.item_id for outcome in read(HEADER, *rows)}
    delivered = data.draw(st.permutations(rows + data.draw(st.lists(st.sampled_from(rows)))))
    cut = data.draw(st.integers(0, len(delivered)))
    parts = [read(HEADER, *part) for part in (delivered[:cut], delivered[cut:])]
    assert {outcome.item_id for part in parts for outcome in part} == expected


@given(st.text(max_size=12))
def test_no_text_is_ever_coerced_into_a_number(text):
    """What is read as a value is written as one: digits with a point, or true or false."""
    cell = text.replace('"', '""').encode("utf-8", errors="replace")
    try:
        (outcome,) = read(HEADER, ROW.replace(b",1,program", b',"' + cell + b'",program'))
    except LineError:
        return
    if outcome.value is not None:
        written = text.strip().lower()
        assert written in ("true", "false") or set(written) <= set("0123456789+-.e")


@pytest.mark.parametrize(
    "change",
    [
        {"columns": {"x": "colour"}},
        {"columns": {"x": "value", "y": "value"}},
        {"constants": {"colour": "red"}},
        {"decimal": ";"},
        {"timezone": "Europe/Nowhere"},
        {"timezone": "../etc/passwd"},
        {"timezone": "+25:00"},
        {"timezone": ""},
        {"date_format": "%d/%m/%Y"},
        {"date_format": "DD/MM/YYYY"},
        {"date_format": "%"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(change):
    """Unknown fields, zones and forms of time; a day without an hour is no time."""
    with pytest.raises(ValueError, match=r"expected|Input should be"):
        CsvSettings(**change)


def test_an_offset_is_a_zone():
    """East of Greenwich is ahead."""
    assert CsvSettings(timezone="-03:30").zone.utcoffset(None) == -timedelta(hours=3, minutes=30)
