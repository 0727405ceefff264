"""Which weights sampled which tokens, by the spans or the one version that a server names."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ingest.call import WeightSpan, whole
from ingest.formats.chat import Choice, Response, ServerMetadata
from ingest.formats.extras import Extras

_METADATA = msgspec.json.Decoder(ServerMetadata | None)


def spans_of(choice: Choice, response: Response, extras: Extras, num_tokens: int) -> tuple[WeightSpan, ...]:
    """The spans as the server states them.

    Spans come first, for SGLang's single version is only that of the end of the reply. Those of the whole response
    are of no choice where it has several.
    """
    metadata = _metadata(response)
    spans = choice.weight_versions or (extras.meta.weight_versions if extras.meta is not None else None)
    if not spans and metadata is not None and len(response.choices or ()) == 1:
        spans = metadata.weight_versions
    if spans:
        return tuple(WeightSpan(str(span.version), span.start, span.end) for span in spans)
    single = extras.meta.weight_version if extras.meta is not None else None
    if single is None and metadata is not None:
        single = metadata.weight_version
    return whole(single, num_tokens)


def _metadata(response: Response) -> ServerMetadata | None:
    """The metadata of a response where a server wrote versions into it; it may hold anything else."""
    if isinstance(response.metadata, Raw) and b'"weight_version' in bytes(response.metadata):
        return _METADATA.decode(response.metadata)
    return None
