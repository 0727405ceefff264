"""Keys and passwords that are known by their shape: those that detect-secrets knows, and some that it does not.

Its detectors that guess are left out: those of entropy find hashes and ids, the one of keywords reads 1 MB/s, and an
own pattern says better what a house calls a secret. Its per-line interface yields values without their places, and of
some patterns only the prefix; so its patterns are used, and its settings, files and network checks are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ingest.detectors import Detector, Span

_TAIL = re.compile(r"[A-Za-z0-9_\-=]{0,4096}")


@dataclass(frozen=True, slots=True)
class _Shape:
    """One shape of secret."""

    literals: tuple[str, ...]
    """One of them stands in every text that the pattern matches."""
    pattern: re.Pattern[str]
    group: int = 0
    """Which group of the pattern is the secret."""
    needs_digit: bool = False
    """Whether a match without a digit is a word, not a key."""


# Of keys that are written with a prefix, what the library lacks. Shapes: the issuers' own documentation and gitleaks.
_OWN = (
    _Shape(("sk-",), re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}"), needs_digit=True),
    # The library's pattern asks that no letter follow, of whatever script.
    _Shape(
        ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-"),
        re.compile(r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[A-Za-z0-9_-]{20,}"),
    ),
    _Shape(("github_pat_",), re.compile(r"github_pat_[A-Za-z0-9_]{22,}")),
    _Shape(("AIza",), re.compile(r"AIza[A-Za-z0-9_-]{35}")),
    _Shape(("hf_",), re.compile(r"hf_[A-Za-z0-9]{30,}")),
    _Shape(("xapp-",), re.compile(r"xapp-[0-9]-[A-Za-z0-9]{8,}-[0-9]+-[A-Za-z0-9]+")),
    _Shape(("sk_test_", "rk_test_"), re.compile(r"[rs]k_test_[0-9a-zA-Z]{24}")),
    # The library's JWT pattern ends before the signature, and takes time that grows with the square of the text.
    _Shape(
        ("eyJ",),
        re.compile(r"(?<![\w-])[\w-]{0,64}?(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]+)*)", re.ASCII),
        1,
    ),
    _Shape(("earer ", "EARER "), re.compile(r"(?i:bearer) ([A-Za-z0-9._~+/=-]{16,})"), 1, needs_digit=True),
    _Shape(("@",), re.compile(r"""://[^\s/@:?#"'<>]{0,256}:([^\s/?#"'<>]{1,256})@"""), 1),
)
_END = "-----END"
_BODY = re.compile(
    r"(?:BEGIN[A-Z0-9 ]{1,40}-{0,5}|PuTTY[^\n]{0,80})"
    r"(?:\s*+(?:[A-Za-z-]{1,20}: [^\n]{0,120}+\n|[A-Za-z0-9+/=]{16,}+))*+(?:\s*[A-Za-z0-9+/=]+\s*\Z)?"
)
_LONGEST_KEY = 32768
_DIGIT = re.compile("[0-9]")
_KEY_LITERALS = ("PRIVATE KEY", "PuTTY-User")
_COMMON_FIRST = " etaoinsrhldcumfpgwyb.-kvTSAICPMEBDNLRHWFOGU0123456789xjqzKVYJQXZ_=@"
"""Characters as often as they stand in text: that a rare one is missing is told fastest."""


def _library() -> tuple[_Shape, ...]:
    from detect_secrets.plugins.aws import AWSKeyDetector
    from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
    from detect_secrets.plugins.basic_auth import BasicAuthDetector
    from detect_secrets.plugins.github_token import GitHubTokenDetector
    from detect_secrets.plugins.pypi_token import PypiTokenDetector
    from detect_secrets.plugins.sendgrid import SendGridDetector
    from detect_secrets.plugins.slack import SlackDetector
    from detect_secrets.plugins.square_oauth import SquareOAuthDetector
    from detect_secrets.plugins.stripe import StripeDetector

    aws_id, aws_key = AWSKeyDetector.denylist
    whole = (
        (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), GitHubTokenDetector),
        (("pypi-Ag",), PypiTokenDetector),
        (("AccountKey=",), AzureStorageKeyDetector),
        (("SG.",), SendGridDetector),
        (("sq0csp-",), SquareOAuthDetector),
        (("_live_",), StripeDetector),
        (("xox", "XOX", "hooks.slack"), SlackDetector),
    )
    return (
        _Shape(("A3T", "ABIA", "ACCA", "AKIA", "ASIA"), aws_id),
        _Shape(("aws", "AWS", "Aws"), aws_key, 1),
        *(_Shape(("@",), pattern, 1) for pattern in BasicAuthDetector.denylist),
        *(_Shape(literals, pattern) for literals, plugin in whole for pattern in plugin.denylist),
    )


def _find_private_keys(text: str, headers: tuple[re.Pattern[str], ...]) -> Iterator[Span]:
    """Private keys from their first line to their last, or as far as what follows looks like one."""
    end = -2
    for start in sorted({match.start() for header in headers for match in header.finditer(text)}):
        opening = text.rfind("-----", max(start - 5, 0), start)
        body = _BODY.match(text, start, start + _LONGEST_KEY)
        if end != -1 and end < start:
            end = text.find(_END, start)
        stop = body.end() if body is not None else start
        if end != -1 and end - start < _LONGEST_KEY:
            closing = text.find("-----", end + len(_END), end + 80)
            stop = max(stop, end + len(_END) if closing == -1 else closing + 5)
        yield (start if opening == -1 else opening), stop


def secret_detector() -> Detector:
    """Finds keys, tokens, private keys and passwords in links."""
    from detect_secrets.plugins.private_key import PrivateKeyDetector

    headers = tuple(PrivateKeyDetector.denylist)
    shapes = (*_library(), *_OWN)
    literals = {*_KEY_LITERALS, *(literal for shape in shapes for literal in shape.literals)}
    by_rarest: dict[str, list[str]] = {}
    for literal in sorted(literals):
        by_rarest.setdefault(max(literal, key=_COMMON_FIRST.find), []).append(literal)

    def may_find(text: str) -> bool:
        has = text.__contains__
        return any(has(character) and any(map(has, words)) for character, words in by_rarest.items())

    def find(text: str) -> Iterator[Span]:
        has = text.__contains__
        for shape in shapes:
            if any(map(has, shape.literals)):
                yield from _matches(shape, text)
        if any(map(has, _KEY_LITERALS)):
            yield from _find_private_keys(text, headers)

    return Detector("secret", may_find, find)


def _matches(shape: _Shape, text: str) -> Iterator[Span]:
    for match in shape.pattern.finditer(text):
        start, end = match.span(shape.group)
        if shape.needs_digit and not _DIGIT.search(text, start, end):
            continue
        if shape.group == 0:  # a key that is longer than its pattern leaves no tail
            tail = _TAIL.match(text, end)
            end = end if tail is None else tail.end()
        while end > start + 1 and text[end - 1] in ".,":
            end -= 1
        yield start, end
