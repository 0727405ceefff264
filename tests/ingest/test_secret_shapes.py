"""Keys are known by their shape. Each is put together here, so that no scanner takes this file for a leak."""

import time

import pytest

from ingest.secret_shapes import secret_detector

ALNUM = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6"
SECRETS = {
    "aws id": "AKIA" + "IOSFODNN7EXAMPLE",
    "github": "ghp_" + ALNUM[:36],
    "github, longer than its pattern": "ghs_" + ALNUM[:50],
    "github, fine-grained": "github_pat_" + ALNUM[:22] + "_" + ALNUM,
    "gitlab": "glpat-" + ALNUM[:20],
    "openai": "sk-" + ALNUM[:20] + "T3Blbk" + "FJ" + ALNUM[:20],
    "openai project": "sk-proj-" + ALNUM + "_-" + ALNUM,
    "anthropic": "sk-ant-api03-" + ALNUM,
    "stripe": "sk_live_" + ALNUM[:24],
    "stripe, longer and in test": "rk_test_" + ALNUM[:40],
    "slack": "xoxb-" + "1234567890-123456789012-" + ALNUM[:24],
    "slack app": "xapp-1-" + "A012ABCD-1234567890-" + ALNUM[:24],
    "slack hook": "https://hooks.slack.com/services/" + "T0000000/B0000000/" + ALNUM[:24],
    "google": "AIza" + ALNUM[:35],
    "hugging face": "hf_" + ALNUM[:34],
    "sendgrid": "SG." + ALNUM[:22] + "." + ALNUM[:43],
    "pypi": "pypi-AgEI" + "cHlwaS5vcmc" + ALNUM + ALNUM[:30],
    "square": "sq0csp-" + ALNUM[:43],
    "azure": "AccountKey=" + (ALNUM + ALNUM)[:86] + "==",
    "jwt": "eyJ" + ALNUM[:17] + ".eyJ" + ALNUM[:20] + "." + ALNUM[:30] + "-_1",
    "pem": "-----BEGIN RSA PRIVATE"
    " KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEpAIBAAKCAQEA\nabcd\n-----END RSA PRIVATE KEY-----",
}
find = secret_detector()


def found(text):
    """The texts that were found, those within others left out."""
    spans = set(find.find(text))
    return [
        text[start:end]
        for start, end in sorted(spans)
        if not any(other != (start, end) and other[0] <= start and end <= other[1] for other in spans)
    ]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(("before", "after"), [("", ""), ("key: ", " ok"), ('{"k":"', '"}'), ("(", ")."), ("é", "é")])
def test_a_secret_is_found_whole(name, before, after):
    """Whatever stands around it."""
    text = before + SECRETS[name] + after
    assert find.may_find(text)
    assert found(text) == [SECRETS[name]]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgres://u:hunter2@db/x", "hunter2"),
        ("https://u:p@$$!@h.com/", "p@$$!"),
        ("Authorization: Bearer abc.def-123_456789", "abc.def-123_456789"),
        (
            "AWS_SECRET_ACCESS_KEY='" + "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY'",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        ),
    ],
)
def test_only_the_secret_part_is_one(text, secret):
    """The user, the host and the name of the variable stay."""
    assert found(text) == [secret]


def test_a_private_key_without_its_end_is_one():
    """As far as it looks like one; the text after it stays."""
    text = "x -----BEGIN PRIVATE" + " KEY-----\n" + "QUJD" * 16 + "\n" + "QUJD" * 16 + "\nThat was it."
    assert found(text) == [text[2:-13]]


@pytest.mark.parametrize(
    "text",
    [
        "task-oriented-dialogue-systems-2024 and disk-aaaaaaaaaaaaaaaaaaaaaaaa1",
        "sk-learn-pipelines-are-good-tools",
        "bearer of the good news, whoever that is",
        "d41d8cd98f00b204e9800998ecf8427e",
        "123e4567-e89b-12d3-a456-426614174000",
        "https://example.com:8080/a@b",
        "the eyJ prefix",
    ],
)
def test_what_is_no_secret_stays(text):
    """Words with hyphens, hashes, UUIDs, ports."""
    assert found(text) == []


@pytest.mark.parametrize(
    "unit", ["eyJ", "sk-", "-----BEGIN PRIVATE KEY-----!", "://", "://a:", "xoxb-1-", "aws key ", "glagent-", "Bearer "]
)
def test_no_text_takes_time_that_grows_with_its_square(unit):
    """A second or so for 300,000 characters; the square would be minutes. The bound is wide, to catch a hang alone."""
    text = unit * (300_000 // len(unit)) + "@"
    begin = time.perf_counter()
    list(find.find(text))
    assert time.perf_counter() - begin < 60
