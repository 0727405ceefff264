"""Rows of calls under the settings of now."""

from __future__ import annotations

from ingest.meaning import Deployment
from ingest.meant import CallRow
from tests.ingest.hand_made import G1, P1
from tests.ingest.made_rows import built, call_row, toy

LANDED_UNKNOWN = ["logprob_kind_unknown", "sampling_params_unknown", "version_unknown"]


def test_a_call_that_landed_before_its_deployment_was_described_is_read_anew():
    """What was unknown then is known now."""
    row = call_row("a", P1, G1, notes=LANDED_UNKNOWN)
    assert built(row, deployments={}).faults == set(LANDED_UNKNOWN)
    trace = built(row)
    assert trace.faults == set()
    assert (trace.rows[0]["logprob_kind"], trace.rows[0]["policy_version_min"]) == ("processed", "v7")


def test_a_call_is_read_anew_when_less_is_stated_too():
    """A clean landing is no promise."""
    assert built(call_row("a", P1, G1), deployments={"toy": Deployment()}).faults == {
        "logprob_kind_unknown",
        "version_unknown",
        "sampling_params_unknown",
    }


def test_facts_of_the_log_stay_whatever_is_stated():
    """A missing number, a grammar, weights that changed in the middle."""
    facts = ["grammar_constrained", "len_mismatch", "version_ambiguous"]
    assert built(call_row("a", P1, G1, notes=facts)).faults == set(facts)


def test_a_smaller_vocabulary_masks_ids_that_landed_clean():
    """And a larger one lets them in again."""
    assert built(call_row("a", P1, G1), deployments=toy(vocabulary_size=300)).faults == {"ids_out_of_vocab"}
    assert built(call_row("a", P1, G1, notes=["ids_out_of_vocab"])).faults == set()


def test_what_the_field_said_of_its_numbers_is_remembered():
    """It is a note of the row, for the field itself is not kept."""
    stated = toy(logprobs_mode=None)
    row = call_row("a", P1, G1, notes=["field_says_temperature", "logprob_kind_unknown"])
    assert built(row, deployments=stated).rows[0]["logprob_kind"] == "temperature"
    assert built(row).faults == {"logprob_kind_unknown"}


def test_the_settings_behind_a_trace_are_those_of_all_its_calls():
    """One hash; other settings of a deployment that it does not name change nothing."""
    rows = call_row("a", P1, G1), call_row("b", P1[::-1], G1, at=1, model="toy@v8")
    (one, both) = built(rows[0]), built(*rows)
    assert one.rows[0]["meaning_sha256"] != both.rows[0]["meaning_sha256"]
    beside = built(*rows, deployments={**toy(), "other": Deployment(engine="x")})
    assert beside.rows[0]["meaning_sha256"] == both.rows[0]["meaning_sha256"]


def test_a_row_of_version_1_keeps_the_version_that_it_landed_with():
    """It has no weights; what the present settings say of the version comes first."""
    row = call_row("a", P1, G1, model="toy", landed_version="w9", logged_deployment=None, landed_as="toy")
    quiet = toy(version_pattern=None)
    assert (built(row, deployments=quiet).faults, _version(row, quiet)) == (set(), "w9")
    assert _version(row, toy(version_pattern=None, policy_version="v3")) == "v3"
    assert built(row).faults == {"version_unknown"}  # the settings look for one in the name, and none is there
    unnamed = call_row("a", P1, G1, model="toy", landed_version="default")
    assert built(unnamed, deployments=quiet).faults == {"version_unknown"}


def test_weights_of_a_row_go_before_the_version_that_it_landed_with():
    """Rows of later versions keep them."""
    spans = [{"policy_version": "w1", "start": 0, "end": 4}]
    row = call_row("a", P1, G1, model="toy", landed_version="w9", version_spans=spans)
    assert _version(row, toy(version_pattern=None)) == "w1"


def _version(row: CallRow, deployments: dict[str, Deployment]) -> str | None:
    """The version that wrote the one call of a trace."""
    version: str | None = built(row, deployments=deployments).rows[0]["policy_version_min"]
    return version
