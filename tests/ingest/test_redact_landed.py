"""With all detectors on, nothing that was planted in a log or a score is in the lake, in any file of it; off, all is."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ingest.redact import RedactSettings
from tests.ingest.hand_made import G1, L1, P1, envelope, line, response
from tests.ingest.night_made import fresh, land, put_together
from tests.ingest.score_examples import LANGFUSE, PLAIN
from tests.ingest.test_redact_planted import cards, emails, keys, phones
from tests.ingest.tracing_made import CHAT, TRACE, otlp, span
from warehouse.lake import Lake

ALL = RedactSettings(detectors=("email", "phone", "card", "secret"))
MAIL, PHONE, CARD, KEY = "jane.roe@corp.example.com", "+49 30 901820", "4111 1111 1111 1111", "ghp_7" + "A1B2C" * 7
WRITTEN = ("calls", "outcomes", "rejects", "source_files", "traces")
_WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
PLANTED = (MAIL, PHONE, CARD, KEY)


def _call(text: str, name: str) -> bytes:
    """A call with the text in every text of it and the name in every id of it."""
    answer = {**response(P1, G1, L1, text=f"reply: {text}"), "id": f"resp {name}"}
    arguments = json.dumps({"note": f"see {text} ", text: [f"({text})"], "more": json.dumps({"in": f"to {text}"})})
    tool = {"id": "call_1", "type": "function", "function": {"name": "mail", "arguments": arguments}}
    answer["choices"][0] |= {"stop_reason": f"stop {text}", "finish_reason": f"ended {text}"}
    answer["choices"][0]["message"]["tool_calls"] = [tool]
    request = {
        "messages": [
            {"role": "user", "content": f"I am {text}, pay me"},
            {"role": "user", "content": [{"type": "text", "text": f"or {text}"}]},
            {"role": "assistant", "content": None, "tool_calls": [tool]},
            {"role": "tool", "tool_call_id": "call_1", "content": f"sent to {text}"},
        ],
        "stop": [f"stop {text}", text],
        "user": text,
        "metadata": {"who": text},
    }
    ids = {key: f"{key} {name}" for key in ("trace_id", "session_id", "ask_id", "workload")}
    return line(envelope(answer, request=request, user=text, **ids))


def _own(text: str, name: str) -> bytes:
    """A line of tracemill's own with the same."""
    ids = {key: f"{key} {name}" for key in ("response_id", "session_id", "ask_id", "workload", "span_id")}
    told = {"trace_id": f"own {name}", "model": f"toy {name}", "token_ids": G1, "token_logprobs": L1}
    said = {"messages": [{"role": "user", "content": text}], "reply_text": f"to {text}", "user": text}
    return line({**told, **ids, **said, "sampling": {"stop": text, "temperature": 1.0, "user": text}})


def _span(text: str, name: str) -> bytes:
    """A tracing span with the same."""
    parts = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"I am {text}"}]}])
    values = {**CHAT, "gen_ai.input.messages": parts, "gen_ai.output.messages": parts, "user.id": text}
    return line(otlp(span({**values, "gen_ai.conversation.id": f"conversation {name}"})))


def _scores(text: str, name: str) -> list[bytes]:
    """Scores with the same, of the traces that `_call` makes among others."""
    ids = {"trace_id": f"trace_id {name}", "event_id": f"event {name}", "source": f"by {name}"}
    keyed = {"session_id": f"session_id {name}", "business_key": f"ask_id {name}", "response_id": f"resp {name}"}
    words = {"name": f"good {text}", "label": f"said {text}", "scorer_version": f"v {text}"}
    return [
        line({**PLAIN, **ids, **words}),
        line({**PLAIN, **ids, **keyed, **words, "trace_id": None}),
        line({**LANGFUSE, "comment": text, "metadata": {"who": text}, "stringValue": f"is {text}"}),
    ]


def _broken(text: str) -> list[bytes]:
    """Lines that become rejects, with the text at their beginning, and at the end of what is shown of them."""
    heads = [f'{{"note": "{text} ', f'{{"a": "{"x" * (180 - len(text) // 2)} {text} and more"', f"oops: {text} failed"]
    wrong = [{**PLAIN, "source_kind": f"by {text}"}, {**PLAIN, "value": f"is {text}"}, {**PLAIN, "event_time": text}]
    return [*(head.encode() for head in heads), *map(line, wrong), line({"unknown": text})]


def _csv(text: str, name: str) -> bytes:
    """A CSV file with the text in its cells, a broken row among its rows."""
    row = f'"e {name}","trace_id {name}","good {text}",1,program,"by {name}","said {text}",2026-11-22T09:00:00Z\n'
    return (
        b"event_id,trace_id,name,value,source_kind,source,label,event_time\n"
        + row.encode()
        + row.replace(",1,", ',"0,5 ' + text.replace('"', "") + '",').encode()
        + row.replace("program", f"by {text}").encode()
    )


def _write(folder: Path, text: str, name: str) -> None:
    folder.mkdir()
    (folder / "calls.log").write_bytes(
        b"".join(one + b"\n" for one in (_call(text, name), _call(text, "none"), _own(text, name)))
    )
    (folder / "spans.log").write_bytes(_span(text, name) + b"\n")
    for number, score in enumerate(_scores(text, name)):
        (folder / f"score{number}.log").write_bytes(score + b"\n")
    (folder / "broken.log").write_bytes(b"".join(one + b"\n" for one in _broken(text)) + f'{{"last": "{text}'.encode())
    (folder / "scores.csv").write_bytes(_csv(text, name))


def _texts(lake: Lake) -> str:
    """Every value of every column that a landing writes."""
    return "\n".join(repr(lake.read(table).to_pylist()) for table in WRITTEN)


def _bytes(root: Path) -> bytes:
    """Every file of the lake."""
    return b"\n".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())


def _counts(lake: Lake) -> Counter[str]:
    found: Counter[str] = Counter()
    for told in lake.read("source_files")["redacted_json"].to_pylist():
        found.update(json.loads(told or "{}"))
    return found


@pytest.mark.slow
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), phases=_WITHOUT_SHRINKING)
@given(mail=emails, phone=phones, card=cards, key=keys)
def test_nothing_planted_is_in_any_table_or_file(empty_lake: Path, mail: str, phone: str, card: str, key: str):
    """Texts, ids, sampling parameters, scores, cells, the heads and messages of rejects, the statistics of files."""
    text, name = f"{mail}, {phone}, {card}, {key}", f"{mail}, {phone}, {key}"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _write(root / "logs", text, name)
        with fresh(empty_lake, root / "lake") as lake:
            report = land(lake, root / "logs", redact=ALL)
            put_together(lake, redact=ALL)
            assert (report.num_landed, lake.read("calls").num_rows, lake.read("outcomes").num_rows) == (8, 4, 4)
            texts = _texts(lake)
            assert [value for value in (mail, phone, card, key) if value in texts] == []
            assert set(_counts(lake)) >= {"email", "phone", "card", "secret"}
        stored = _bytes(root / "lake")
        assert [value for value in (mail, phone, card, key) if value.encode() in stored] == []


@pytest.mark.slow
def test_scores_still_find_their_traces(lake: Lake, tmp_path: Path):
    """What names a trace is the same keyed hash on both sides, and another for another trace."""
    _write(tmp_path / "logs", ", ".join(PLANTED), MAIL)
    land(lake, tmp_path / "logs", redact=ALL)
    put_together(lake, redact=ALL)
    joined = lake.read("joined_outcomes").to_pylist()
    found = {row["trace_id"] for row in joined if row["key_kind"] is not None}
    assert {name.partition("#")[0] for name in found} == {"trace_id [email]", TRACE}
    assert Counter(row["key_kind"] for row in joined) == {"exact": 3, "response": 1}
    assert found <= set(lake.read("current_traces")["trace_id"].to_pylist())
    assert len(set(lake.read("calls")["trace_id"].to_pylist())) == 4


@pytest.mark.parametrize("field", ["deployment", "policy_version", "engine_version", "engine"])
def test_nothing_planted_is_in_a_name_of_the_server(lake: Lake, tmp_path: Path, field: str):
    """Whoever named a deployment or a version after a person."""
    told = {"trace_id": "t", "model": "toy", "token_ids": G1, "token_logprobs": L1, field: f"of {MAIL}"}
    (tmp_path / "log").write_bytes(line(told) + b"\n")
    assert land(lake, tmp_path / "log", redact=ALL).num_landed == 1
    assert MAIL not in _texts(lake)


@pytest.mark.slow
def test_without_detectors_texts_are_as_logged(lake: Lake, tmp_path: Path):
    """Word for word; only the user is a hash."""
    _write(tmp_path / "logs", ", ".join(PLANTED), MAIL)
    land(lake, tmp_path / "logs")
    calls = {row["response_id"]: row for row in lake.read("calls").to_pylist()}
    call = calls[f"resp {MAIL}"]
    asked = json.loads(call["messages_json"])
    assert asked[0]["content"] == f"I am {', '.join(PLANTED)}, pay me"
    assert json.loads(json.loads(asked[2]["tool_calls"][0]["function"]["arguments"])["more"]) == {
        "in": f"to {', '.join(PLANTED)}"
    }
    assert (call["trace_id"], call["stop_reason"]) == (f"trace_id {MAIL}", f"stop {', '.join(PLANTED)}")
    assert json.loads(call["sampling_json"])["stop"] == [f"stop {', '.join(PLANTED)}", ", ".join(PLANTED)]
    assert MAIL not in call["user_hash"]
    labels = lake.read("outcomes")["label"].to_pylist()
    assert f"said {', '.join(PLANTED)}" in labels
    assert _counts(lake) == {}


@pytest.mark.slow
def test_redaction_leaves_identities_alone(tmp_path: Path, empty_lake: Path):
    """A call is known by what was logged: landed again with detectors off, each line is a duplicate."""
    _write(tmp_path / "logs", ", ".join(PLANTED), MAIL)
    (tmp_path / "again").mkdir()
    for path in (tmp_path / "logs").iterdir():
        (tmp_path / "again" / path.name).write_bytes(path.read_bytes())
    with fresh(empty_lake, tmp_path / "lake") as lake:
        first = land(lake, tmp_path / "logs", redact=ALL)
        again = land(lake, tmp_path / "again")
        assert (again.num_landed, again.num_duplicates) == (0, first.num_landed)
