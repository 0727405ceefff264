"""Chunks that were logged as the text of server-sent events, `data: {...}` and `data: [DONE]`."""

from __future__ import annotations

from itertools import chain, islice

import msgspec
from msgspec import Raw

from schemas.errors import LineError

_ELEMENTS = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)

_LOOKED_AT = 3
"""Chunks of a stream by which its server is told. Convention, untested."""

_FIELDS = ("event:", "id:", "retry:", ":")
"""Lines of an event that hold no data; one that begins with a colon is a comment, such as a keep-alive."""


def payloads(text: str) -> list[bytes]:
    """The JSON documents in the text of events; the end mark and lines without data hold none.

    Raises LineError (`stream_incomplete`) for a text that is something else.
    """
    found = []
    for line in text.splitlines():
        data = line.removeprefix("data:").strip()
        if not data or data == "[DONE]" or line.startswith(_FIELDS):
            continue
        if data[0] != "{":
            raise LineError(
                "stream_incomplete", f"the chunk {data[:60]!r} is no event; expected data: and an object: mend the log"
            )
        found.append(data.encode())
    return found


def first_chunks(document: bytes | Raw) -> list[Raw] | None:
    """The first elements of a list that hold something, the text of events taken off; None of anything but a list.

    Several, for the first of a stream may be an error or a count alone.
    """
    try:
        elements = _ELEMENTS.decode(document)
    except msgspec.ValidationError:
        return None
    return list(islice(chain.from_iterable(_undressed(element) for element in elements), _LOOKED_AT))


def _undressed(element: Raw) -> list[Raw]:
    if bytes(element).lstrip()[:1] != b'"':
        return [element]
    try:
        return [Raw(document) for document in payloads(_TEXT.decode(element))]
    except LineError:
        return []
