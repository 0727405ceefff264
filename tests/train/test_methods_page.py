"""docs/methods.md says what the code says: its tables, its examples, its figures and what each method asks of a trace."""

import contextlib
import io
import math
import re
import tomllib
from pathlib import Path

import pytest
import torch

from schemas.errors import BatchError, UsageError
from train.batch import Batch
from train.methods import BPCO, BPO, KLPO, METHODS, FlashReinforce, Reinforce, by_name, terms, values
from train.methods.correction_catalog import CORRECTIONS
from train.methods.page import equation, rendered
from train.replay import TrainSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "methods.md").read_text("utf-8")
NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"

DRAWS = {"kind": "draws", "behavior_logprobs": [[-0.7, -1.6]], "logprobs": [[-0.5, -2.3]]}
FIELDS = {"behavior_logprobs": [-0.7], "values": [0.4], "group": "ask", "records": DRAWS}
"""What a trace of one token may carry beside its reward, its mask and its score."""


def section(title):
    """The text under a heading, up to the next one."""
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)[1]


def which_one():
    """The table of methods: class name to the fields it needs and what it does with a group of one."""
    for line in section("Which one").splitlines():
        if line.startswith("| ["):
            title, needed, alone, _, _ = line.strip("| ").split(" | ")
            yield re.match(r"\[(\w+)\]", title)[1], re.findall(r"`(\w+)`", needed), alone


def batch_with(names, groups=("ask", "ask")):
    """Two traces of one token with these fields, one of them good."""
    chosen = {name: FIELDS[name] for name in names}
    in_group = [{"group": group} if "group" in names else {} for group in groups]
    return Batch.from_rows(
        [{"reward": 1.0 - at, "logprobs": [-0.69], **chosen, **in_group[at]} for at in range(2)], dtype=torch.float64
    )


def pair(behavior, current, **more):
    """A batch of a good trace with these probabilities, and a bad one that did not move."""
    log = [[math.log(each) for each in probabilities] for probabilities in (behavior, current)]
    rows = [
        {
            "reward": 1.0,
            "behavior_logprobs": log[0],
            "logprobs": log[1],
            **{k: [v] * len(current) for k, v in more.items()},
        },
        {"reward": 0.0, "behavior_logprobs": [-0.7], "logprobs": [-0.7], **{k: [v] for k, v in more.items()}},
    ]
    return Batch.from_rows(rows, dtype=torch.float64)


def test_the_parts_from_the_code_are_those_of_the_code():
    """`python -m train.methods.page` would change nothing."""
    assert rendered(PAGE) == PAGE


def test_a_part_that_the_code_does_not_have_is_refused():
    """A misspelt marker would otherwise stay empty."""
    with pytest.raises(UsageError, match="part 'options flash': expected one of equation flash_reinforce"):
        rendered("<!-- options flash -->\n<!-- end -->")


@pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
def test_every_method_has_its_section(kind):
    """With its equation, its options, when it does not fit and what nobody knows."""
    text = section(kind.__name__)
    assert f"<!-- options {kind.name} -->" in text
    assert f"<!-- equation {kind.name} -->" in text or not equation(kind)
    assert "oes not fit" in text
    assert "Not known" in text


def test_every_correction_is_listed():
    """Once, in the first table."""
    listed = re.findall(r"^\| `(\w+)` \|", section("Corrections"), flags=re.MULTILINE)
    assert listed == list(CORRECTIONS)


def test_the_examples_print_what_the_page_shows(monkeypatch):
    """In their order, in one namespace, figures to a part in a hundred."""
    monkeypatch.chdir(ROOT)
    examples = re.findall(r"^```python\n(.*?)^```\n\n```\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert len(examples) == PAGE.count("```python") == 4
    left = {}
    for code, shown in examples:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "methods.md", "exec"), left)  # noqa: S102 - the page is ours
        texts = [shown.strip(), printed.getvalue().strip()]
        assert re.sub(NUMBER, "#", texts[0]) == re.sub(NUMBER, "#", texts[1])
        figures = [[float(found) for found in re.findall(NUMBER, text)] for text in texts]
        assert figures[0] == pytest.approx(figures[1], rel=0.01, abs=1e-6)


def test_the_settings_on_the_page_are_settings():
    """The trainer and the method take them."""
    (stated,) = re.findall(r"^```toml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    settings = TrainSettings(**tomllib.loads(stated)["train"])
    assert by_name(settings.method, settings.options).correction == "tis"


def test_the_table_has_every_method():
    """Once, in the order of the sections."""
    names = [name for name, _, _ in which_one()]
    assert sorted(names) == sorted(kind.__name__ for kind in METHODS.values())
    assert [title for title in re.findall(r"^## (\w+)$", PAGE, flags=re.MULTILINE) if title in names] == names


@pytest.mark.parametrize(("name", "needed", "alone"), list(which_one()), ids=lambda each: str(each)[:20])
def test_a_method_needs_what_the_table_says(name, needed, alone):
    """With just those fields it updates, without one of them it refuses; so does a group of one where it says so."""
    method = next(kind for kind in METHODS.values() if kind.__name__ == name)()
    assert method.update(batch_with(needed)).moves
    for lacking in needed:
        with pytest.raises(BatchError):
            method.update(batch_with([each for each in needed if each != lacking]))
    apart = batch_with({*needed, "group"}, groups=("one", "other"))
    if alone == "refused":
        with pytest.raises(BatchError, match="alone in its group"):
            method.update(apart)
    else:
        assert alone == "works"
        assert method.update(apart).moves


@pytest.mark.parametrize(
    "method", [by_name("klpo", {"centering": "binary"}), by_name("bpo", {"form": "exact_residual"})]
)
def test_two_forms_need_no_more_than_log_probabilities(method):
    """As the sentence under the table says."""
    assert method.update(batch_with(["behavior_logprobs"])).moves


def test_the_gate_is_as_blind_as_the_page_says():
    """Drift 0 at ratio 59,874 below its floor; and 2.1e-4 for one token of 500 at ratio 1,000."""
    blind = FlashReinforce().update(pair([1e-11], [5.9874e-7]))
    assert (float(blind.drift[0]), round(blind.stats["max_ratio"])) == (0.0, 59874)
    diluted = FlashReinforce().update(pair([0.5] * 499 + [1e-4], [0.5] * 499 + [0.1]))
    assert bool(diluted.in_trust[0])
    assert float(diluted.drift[0]) == pytest.approx(2.1e-4, rel=0.02)
    assert diluted.stats["max_ratio"] == pytest.approx(1000)
    assert "drift 0 and ratio 59,874" in " ".join(PAGE.split())
    assert "adds 2.1e-4 and passes with ratio 1,000" in " ".join(PAGE.split())


def test_rare_tokens_are_as_unbounded_as_the_page_says():
    """By a clip of 0.2 and one of 0.15 on the probability; truncation bounds them."""
    assert float(BPCO().update(pair([1e-4], [0.19], values=0.5)).weights[0]) == pytest.approx(1900)
    for truncate, weight in ((math.inf, 1400), (10.0, 10)):
        rule = {"name": "dppo_tv", "truncate": truncate}
        made = Reinforce(correction=rule).update(pair([1e-4], [0.14]))
        assert float(made.weights[0]) == pytest.approx(weight)


def test_small_figures_are_as_the_page_says():
    """BPCO's lambda at two tokens, and BPO's weight of a rare token."""
    assert float(values.length_adaptive_lambdas(torch.tensor([2]), 0.4, floored=False)) == pytest.approx(-0.25)
    behavior = torch.tensor([math.log(1e-5)], dtype=torch.float64)
    weight = terms.bpo_weights(behavior + 3.0, behavior, 0.1)
    assert float(weight) == pytest.approx(1.0002, abs=5e-5)


WORDS = {
    "groups": lambda method: method.needs_groups,
    "a critic": lambda method: method.needs_critic,
    "the sampler's weights": lambda method: method.needs_records in {"expected", "draws"},
    "logged heads": lambda method: method.needs_records == "top_k",
}

NEEDY = {
    "KLPO": KLPO(centering="topk"),
    "BPO": BPO(form="exact_residual", baseline="critic"),
}
"""Of the methods that need more with other options, one that needs the more."""


def test_what_the_trainer_has_to_have_is_what_each_method_says():
    """The column of the first table: the words before a semicolon are for the defaults, those after it for options."""
    rows = re.findall(r"^\| \[(\w+)\]\(#\w+\) \|[^|]+\|[^|]+\| ([^|]+) \|", PAGE, flags=re.MULTILINE)
    kinds = {kind.__name__: kind for kind in METHODS.values()}
    assert {name for name, _ in rows} == set(kinds)
    for name, told in rows:
        plain, _, more = told.partition(";")
        for said, method in ((plain, kinds[name]()), (more, NEEDY.get(name))):
            own = {word for word, needs in WORDS.items() if method is not None and needs(method)}
            assert {word for word in WORDS if word in said} == own, (name, said)
            assert own or not method or "nothing" in said


def test_links_lead_somewhere():
    """To a page beside it, or to a heading on it."""
    anchors = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)}
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert link.removeprefix("#") in anchors if link.startswith("#") else (ROOT / "docs" / link).is_file(), link
