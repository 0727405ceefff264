"""What kind of text a file holds, by its first bytes alone."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from ingest.json_values import end_of_valid

BOM = b"\xef\xbb\xbf"

SNIFF_BYTES = 2**20
"""Bytes after which the kind is decided at last, by what has been seen. Convention, untested."""

_FEW_BYTES = 2**16
"""Bytes that suffice when a document that goes on fills them. Convention, untested."""

Kind = Literal["lines", "array", "values", "utf16", "parquet"]
"""`lines`: each line is a line. `array`: each element of the arrays is one. `values`: each top-level value is one.
`utf16` and `parquet` (packed in an archive) are not read."""

_PARQUET = b"PAR1"
_UTF16 = re.compile(rb"\xff\xfe|\xfe\xff|[{\[\"]\x00|\x00[{\[\"]")
_NOT_STRICT = re.compile(rb"-?\b(?:NaN|Infinity)\b")
_RAW = msgspec.json.Decoder(msgspec.Raw)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def kind_of(window: bytes, *, is_all: bool) -> Kind | None:
    """The kind of a file that begins with these bytes, without a byte-order mark; None if more of it must be seen.

    `is_all` says that these are all bytes that there will be. The rules, in this order:

    - A file that begins with a UTF-16 mark or with NUL beside its first bracket is `utf16`.
    - One that begins with neither `{` nor `[` is `lines`.
    - One whose first line is a whole JSON value is `lines`, but for a single line with an array, which is `array`.
    - One whose beginning cannot be the beginning of JSON is `lines`: its first line is broken, and its neighbours are
      not part of it. Two beginnings are arrays even so, for lines would be no better: a line with `[` alone, and an
      array without a newline.
    - What is left is JSON over several lines: `array` or `values`. An object whose second line begins with a bracket
      must be whole, or go on for 64 KiB: else it is the cut first line of a file of lines.
    - An array whose first element is a chunk of a stream is one streamed response: it is a line or a value, not many.
      A chunk is an object whose "object" ends in "chunk", or one with "delta" or "token" and without "id".
    """
    if len(window) < len(_PARQUET) and not is_all:
        return None
    if _UTF16.match(window):
        return "utf16"
    if window.startswith(_PARQUET):
        return "parquet"
    window = window.lstrip(b" \t\r\n")
    if len(window) >= SNIFF_BYTES and not is_all:
        window, is_all = _whole_lines(window, is_all=False) or window, True
    is_one_line = not window.partition(b"\n")[2].strip()
    if is_one_line and not is_all and (not window or window[0] in b"[{"):
        return None
    if window.startswith(b"["):
        return _with_array(window, is_all=is_all, is_one_line=is_one_line)
    return _with_object(window, is_all=is_all) if window.startswith(b"{") and not is_one_line else "lines"


def _with_array(window: bytes, *, is_all: bool, is_one_line: bool) -> Kind | None:
    first = window.partition(b"\n")[0]
    if is_one_line:
        return _of_array(window, "lines", is_all=is_all)
    is_lines = _is_json(first) == "whole"
    if not is_lines and first.strip() != b"[":
        is_lines = _is_json(_whole_lines(window, is_all=is_all)) == "broken"
    return "lines" if is_lines else _of_array(window, "values", is_all=is_all)


def _with_object(window: bytes, *, is_all: bool) -> Kind | None:
    first, _, rest = window.partition(b"\n")
    if _is_json(first) == "whole":
        return "lines"
    known = _whole_lines(window, is_all=is_all)
    begin = _is_json(known)
    if begin != "cut":
        return "values" if begin == "whole" else "lines"
    if not is_all and len(known) < _FEW_BYTES:
        return None
    # Of two lines, the second one may be a record, and the first one its cut neighbour.
    is_long = len(known) >= _FEW_BYTES and known.count(b"\n") > 2
    return "values" if is_long or not rest.lstrip().startswith((b"{", b"[")) else "lines"


def _whole_lines(window: bytes, *, is_all: bool) -> bytes:
    return window if is_all else window[: window.rfind(b"\n") + 1]


def _of_array(window: bytes, of_stream: Kind, *, is_all: bool) -> Kind | None:
    """What a file is that begins with an array: its elements, unless they are the chunks of one stream."""
    text = _NOT_STRICT.sub(b"0", window[1:].lstrip())
    end = end_of_valid(text, 0) if text else -1
    if end < 0:
        return "array" if is_all or (text and text[0] not in b"{[") else None
    try:
        keys = _KEYS.decode(text[:end])
    except msgspec.DecodeError:  # no object
        return "array"
    is_named = bytes(keys.get("object", msgspec.Raw(b""))).endswith(b'chunk"')
    is_piece = "id" not in keys and ("delta" in keys or "token" in keys)
    return of_stream if is_named or is_piece else "array"


def _is_json(text: bytes) -> Literal["whole", "cut", "broken"]:
    """Whether a text begins with a JSON value, or is the beginning of one; numbers that JSON has not are let pass."""
    try:
        _RAW.decode(_NOT_STRICT.sub(b"0", text))
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            return "cut"
        return "whole" if "trailing" in str(error) else "broken"
    except RecursionError:
        return "broken"
    return "whole"
