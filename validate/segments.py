"""Sums, extremes and lengths over the lists of an Arrow column, without a Python loop over their entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Segments:
    """N lists laid end to end: list i is `values[offsets[i]:offsets[i + 1]]`."""

    offsets: Integers
    """[N + 1], not decreasing, from 0."""
    values: npt.NDArray[Any]
    """[E], the entries of all lists."""
    present: Booleans
    """[E], False where an entry is null; its value is then 0 or NaN and means nothing."""

    @property
    def lengths(self) -> Integers:
        """[N] entries per list; a null list has none."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> Integers:
        """[E] the list that each entry is of."""
        return np.repeat(np.arange(self.lengths.size), self.lengths)

    def sum_of(self, entries: npt.NDArray[Any]) -> Integers:
        """[N] sum of whole or boolean entries per list."""
        running: Integers = np.concatenate([[0], np.cumsum(entries, dtype=np.int64)])
        return running[self.offsets[1:]] - running[self.offsets[:-1]]

    def total_of(self, entries: Floats) -> Floats:
        """[N] sum of float entries per list, each list by itself; 0.0 for an empty one."""
        return self._reduce(np.add, entries, 0.0)

    def least_of(self, entries: Floats) -> Floats:
        """[N] least entry per list, +inf for an empty one."""
        return self._reduce(np.minimum, entries, np.inf)

    def greatest_of(self, entries: Floats) -> Floats:
        """[N] greatest entry per list, -inf for an empty one."""
        return self._reduce(np.maximum, entries, -np.inf)

    def _reduce(self, operation: np.ufunc, entries: Floats, empty: float) -> Floats:
        reduced = np.full(self.lengths.size, empty, np.float64)
        filled = self.lengths > 0
        if filled.any():
            reduced[filled] = operation.reduceat(entries, self.offsets[:-1][filled])
        return reduced


def carried(flags: Booleans, source: Segments, target: Segments, is_aligned: Booleans) -> Booleans:
    """Flags over the entries of `source`, laid over those of `target`; False in lists that are not aligned.

    `is_aligned` [N] says for which lists both have the same length.
    """
    if is_aligned.all():
        return flags
    laid = np.zeros(target.values.size, np.bool_)
    laid[is_aligned[target.owners]] = flags[is_aligned[source.owners]]
    return laid


def segments_of(column: pa.ChunkedArray | pa.Array) -> Segments:
    """The lists of a list column of numbers or booleans."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # a column without any chunk combines to none
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    entries = array.flatten()
    present = entries.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(entries.type):
        values = entries.fill_null(False).to_numpy(zero_copy_only=False)
    elif pa.types.is_floating(entries.type):
        values = entries.to_numpy(zero_copy_only=False)  # Arrow hands nulls over as NaN
    else:
        values = entries.fill_null(0).to_numpy(zero_copy_only=False)
    return Segments(offsets, values, np.asarray(present, np.bool_))
