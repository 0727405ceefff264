"""Packed numbers to Arrow list columns and back, without a Python object for each number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_ITEM_BYTES = 4
"""Token ids are int32 and log-probabilities float32."""


def list_column(pieces: Sequence[bytes | None], value_type: pa.DataType) -> pa.ListArray:
    """One list a piece, of the 4-byte values packed in it; None is a null list."""
    lengths = np.array([0 if piece is None else len(piece) // _ITEM_BYTES for piece in pieces], dtype=np.int64)
    values = pa.Array.from_buffers(
        value_type, int(lengths.sum()), [None, pa.py_buffer(b"".join(piece for piece in pieces if piece))]
    )
    is_null = np.array([piece is None for piece in pieces], dtype=bool)
    return _lists(values, lengths, is_null)


def array_column(pieces: Sequence[npt.NDArray[np.generic]], value_type: pa.DataType) -> pa.ListArray:
    """One list a piece; NaN in a float piece becomes null."""
    lengths = np.array([piece.size for piece in pieces], dtype=np.int64)
    values = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.float32)
    column = pa.array(values, type=value_type, from_pandas=pa.types.is_floating(value_type))
    return _lists(column, lengths, None)


def packed_rows(column: pa.ChunkedArray) -> list[bytes | None]:
    """The values of each list, packed; a null list is None. The inverse of `list_column`."""
    rows: list[bytes | None] = []
    for chunk in column.chunks:
        starts = chunk.offsets.to_numpy()
        flat = chunk.values.to_numpy(zero_copy_only=False)
        is_valid = chunk.is_valid().to_numpy(zero_copy_only=False)
        rows += [
            flat[start:end].tobytes() if valid else None
            for start, end, valid in zip(starts, starts[1:], is_valid, strict=False)
        ]
    return rows


def _lists(values: pa.Array, lengths: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_] | None) -> pa.ListArray:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    kind = pa.list_(pa.field("element", values.type))
    mask = pa.array(is_null) if is_null is not None and is_null.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=kind, mask=mask)
