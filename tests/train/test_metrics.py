"""The metrics file: one line an update, also after a kill."""

import json
import math

from train.metrics import MetricsFile


def test_each_update_is_a_line(tmp_path):
    """Lines come back in order."""
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.write([])
    for number in range(3):
        metrics.append({"update": number, "loss": number / 2})
    assert metrics.read() == [{"update": number, "loss": number / 2} for number in range(3)]


def test_a_resumed_run_drops_what_it_makes_again(tmp_path):
    """What came after the checkpoint is written again, so it must not stand twice."""
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.write([{"update": number} for number in range(5)])
    metrics.write([{"update": 0}])
    metrics.append({"update": 1})
    assert metrics.read() == [{"update": 0}, {"update": 1}]


def test_a_line_that_was_cut_is_not_read(tmp_path):
    """A kill in mid-write leaves half a line."""
    (tmp_path / "metrics.jsonl").write_text('{"update": 0}\n{"upd')
    assert MetricsFile(tmp_path / "metrics.jsonl").read() == [{"update": 0}]


def test_what_is_not_finite_is_null(tmp_path):
    """JSON has no NaN, and a reader must not stumble over one."""
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.append({"update": 0, "max_ratio": math.nan, "loss": math.inf})
    line = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(line, parse_constant=str) == {"update": 0, "max_ratio": None, "loss": None}
