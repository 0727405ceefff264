"""Plain rows to a batch: one row a sequence, as the shared test vectors, a notebook or the lake hold them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from schemas.errors import BatchError
from train.batch import Batch
from train.records import Records

PER_TOKEN = ("logprobs", "behavior_logprobs", "prox_logprobs", "values", "entropies")
"""The fields of a row with one number a token."""


def batch_from_rows(rows: Sequence[Mapping[str, Any]], *, dtype: torch.dtype = torch.float32) -> Batch:
    """The batch of these rows, its numbers in `dtype`.

    A row has `reward` and, one entry a token, `behavior_logprobs`, `logprobs`, `action_mask` (all True if left out)
    and what else its method asks for; lists, NumPy arrays and tensors are alike, and None is a number that is not
    there. Rows with one `trace_id` are the sequences of one trace, in time order (`sequence_index` if stated), and
    carry one reward. Without `trace_id` each row is a trace of its own, named by its position.

    `records` of a row is a mapping with `kind` and, one list of K entries a token, `behavior_logprobs`, and `logprobs`
    and `token_ids` if they are known; None in place of the list of a token that is no action. `sampled_ids` beside them
    has one id a token. See `train.records.Records`.

    A field stands in every row or in none.
    """
    if dtype not in (torch.float32, torch.float64):
        raise BatchError(f"dtype {dtype}: expected torch.float32 or torch.float64; ratios need at least float32")
    if not rows:
        raise BatchError("batch: no row; expected at least one; skip the update instead")
    names = [_trace_id(row, position) for position, row in enumerate(rows)]
    trace_ids = tuple(dict.fromkeys(names))
    positions = {trace_id: position for position, trace_id in enumerate(trace_ids)}
    lengths = [_length(row, name) for row, name in zip(rows, names, strict=True)]
    failures, keys = _per_trace(rows, names, "failure"), _per_trace(rows, names, "key")
    groups = _per_trace(rows, names, "group")
    codes = {group: code for code, group in enumerate(dict.fromkeys(groups or ()))}
    numbers: dict[str, Any] = {name: _packed(rows, names, name, dtype) for name in PER_TOKEN}
    return Batch(
        trace_ids=trace_ids,
        rewards=torch.tensor(_rewards(rows, names), dtype=torch.float64),
        sequence_lengths=torch.tensor(lengths),
        sequence_traces=torch.tensor([positions[name] for name in names]),
        sequence_index=torch.tensor(_sequence_index(rows, names)),
        action_mask=torch.cat([_mask(row, name, size) for row, name, size in zip(rows, names, lengths, strict=True)]),
        failures=None if failures is None else torch.tensor([bool(failed) for failed in failures]),
        policy_lags=_lags(rows, names, lengths),
        groups=None if groups is None else torch.tensor([codes[group] for group in groups]),
        keys=None if keys is None else tuple(str(key) for key in keys),
        records=_records(rows, names, lengths, dtype),
        **numbers,
    )


def _trace_id(row: Mapping[str, Any], position: int) -> str:
    return str(row.get("trace_id", position))


def _length(row: Mapping[str, Any], name: str) -> int:
    """Tokens of the row, the same by each of its per-token fields."""
    lengths = {key: len(row[key]) for key in (*PER_TOKEN, "action_mask") if row.get(key) is not None}
    if not lengths or 0 in lengths.values():
        raise BatchError(f"trace {name}: no token; expected behavior_logprobs with one number a token; leave it out")
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{size} {key}" for key, size in lengths.items())
        raise BatchError(
            f"trace {name}: {said}; expected one of each a token, None where action_mask is False; the log was cut or "
            f"the mask is of another sequence: ingest the trace again"
        )
    return next(iter(lengths.values()))


def _rewards(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[float]:
    """One reward a trace, in order of first mention."""
    rewards: dict[str, float] = {}
    for row, name in zip(rows, names, strict=True):
        reward = row.get("reward")
        if isinstance(reward, bool | np.bool_) or not isinstance(reward, Real):
            raise BatchError(
                f"trace {name}: reward {reward!r}; expected a number; a trace without a score is pending, not 0"
            )
        if rewards.setdefault(name, float(reward)) != float(reward):
            raise BatchError(
                f"trace {name}: rewards {rewards[name]} and {float(reward)}; expected one reward a trace, the same in "
                f"all its sequences; settle which one holds"
            )
    return list(rewards.values())


def _sequence_index(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[int]:
    """Position of each row among the sequences of its trace, as stated or by order."""
    last: dict[str, int] = {}
    indices = []
    for row, name in zip(rows, names, strict=True):
        index = int(row.get("sequence_index", last.get(name, -1) + 1))
        if index <= last.get(name, -1):
            raise BatchError(
                f"trace {name}: sequence_index {index} after {last[name]}; expected the sequences of a trace in time "
                f"order; sort the rows"
            )
        last[name] = index
        indices.append(index)
    return indices


def _per_trace(rows: Sequence[Mapping[str, Any]], names: Sequence[str], key: str) -> list[Any] | None:
    """What the first row of each trace says under `key`; None when no row does."""
    if not _stated(rows, names, key):
        return None
    first: dict[str, Any] = {}
    for row, name in zip(rows, names, strict=True):
        first.setdefault(name, row[key])
    return list(first.values())


def _lags(rows: Sequence[Mapping[str, Any]], names: Sequence[str], lengths: Sequence[int]) -> Tensor | None:
    """`policy_lag` of all rows on one axis, one for a row or one for each of its tokens; None when no row has it."""
    if not _stated(rows, names, "policy_lag"):
        return None
    parts = []
    for row, name, length in zip(rows, names, lengths, strict=True):
        stated = row["policy_lag"]
        lags = torch.as_tensor([stated] * length if isinstance(stated, int) else stated)
        if lags.shape != (length,) or lags.dtype not in (torch.int32, torch.int64):
            raise BatchError(f"trace {name}: policy_lag is {stated!r:.60}; expected whole updates, one or one a token")
        parts.append(lags.to(torch.int64))
    return torch.cat(parts)


def _packed(rows: Sequence[Mapping[str, Any]], names: Sequence[str], key: str, dtype: torch.dtype) -> Tensor | None:
    """The field of all rows on one axis; None when no row has it."""
    if not _stated(rows, names, key):
        return None
    return torch.cat([_numbers(row[key], name, key) for row, name in zip(rows, names, strict=True)]).to(dtype)


def _stated(rows: Sequence[Mapping[str, Any]], names: Sequence[str], key: str) -> bool:
    """Whether the rows have the field; refused when only some do."""
    without = [name for row, name in zip(rows, names, strict=True) if row.get(key) is None]
    if without and len(without) < len(rows):
        raise BatchError(
            f"trace {without[0]}: no {key}, while {len(rows) - len(without)} of {len(rows)} rows have it; expected it "
            f"in every row or in none; leave the trace out, never fill in a number"
        )
    return not without


def _numbers(values: Any, name: str, key: str) -> Tensor:
    """One field of one row as float64; None becomes NaN, which is refused later if an action token has it."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().to(torch.float64).numpy() if values.is_floating_point() else values.cpu().numpy()
    array = np.asarray(values)
    kind = array.dtype.kind
    if kind == "O" and all(entry is None or isinstance(entry, Real) for entry in array.flat):
        kind = "f"
    if kind not in "fiu" or array.ndim != 1:
        raise BatchError(
            f"trace {name}: {key} is {values!r:.60}; expected a flat list of numbers, None where there is none"
        )
    return torch.from_numpy(array.astype(np.float64))


def _records(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], lengths: Sequence[int], dtype: torch.dtype
) -> Records | None:
    """The records of all rows on one axis; None when no row has any."""
    if not _stated(rows, names, "records"):
        return None
    parts = [row["records"] for row in rows]
    for part, name in zip(parts, names, strict=True):
        if not isinstance(part, Mapping):
            raise BatchError(
                f"trace {name}: records are {part!r:.60}; expected a mapping with kind and behavior_logprobs; name them"
            )
    kinds = {part.get("kind") for part in parts}
    if len(kinds) > 1:
        raise BatchError(
            f"batch: records of kinds {', '.join(sorted(map(repr, kinds)))}; expected one kind in all rows; make a "
            f"batch of each"
        )
    tables: dict[str, Tensor | None] = {}
    for name in ("behavior_logprobs", "logprobs", "token_ids", "sampled_ids"):
        if name != "behavior_logprobs" and not _stated(parts, names, name):
            tables[name] = None
            continue
        found = [
            _table(part.get(name), trace, f"records.{name}", length, flat=name == "sampled_ids")
            for part, trace, length in zip(parts, names, lengths, strict=True)
        ]
        tables[name] = _stacked(found, names, f"records.{name}")
    ids, sampled = tables["token_ids"], tables["sampled_ids"]
    numbers: dict[str, Any] = {
        name: None if (table := tables[name]) is None else table.to(dtype) for name in ("behavior_logprobs", "logprobs")
    }
    return Records(
        kind=kinds.pop(),
        token_ids=None if ids is None else ids.nan_to_num(-1).to(torch.int64),
        sampled_ids=None if sampled is None else sampled.nan_to_num(-1).to(torch.int64)[:, 0],
        **numbers,
    )


def _table(values: Any, name: str, key: str, length: int, flat: bool) -> Tensor:
    """One field of the records of one row as float64 [length, K]; K is 0 where no token has a list."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().to(torch.float64).numpy()
    array = None
    if values is not None and len(values) == length:
        if flat:
            return _numbers(values, name, key)[:, None]
        table = values if isinstance(values, np.ndarray) else _filled(values, name, key)
        with contextlib.suppress(TypeError, ValueError):  # What is no number is refused with its place.
            array = np.asarray(table, dtype=np.float64)
    if array is None or array.ndim != 2:
        raise BatchError(
            f"trace {name}: {key} is {values!r:.60}; expected one list of K numbers for each of {length} tokens, None "
            f"where the token is no action; draws are worth nothing without their behavior_logprobs"
        )
    return torch.from_numpy(array)


def _filled(values: Sequence[Any], name: str, key: str) -> list[Any]:
    """The lists of all tokens, of NaN where a token has none; refused when they differ in length."""
    lists = [entry for entry in values if isinstance(entry, Sequence | np.ndarray)]
    sizes = sorted({len(entry) for entry in lists})
    if len(sizes) > 1:
        raise BatchError(
            f"trace {name}: {key} has {sizes[0]} to {sizes[-1]} entries a token; expected the same K for all; cut "
            f"heads to the least, and record as many draws everywhere"
        )
    empty = [torch.nan] * (sizes[0] if sizes else 0)
    return [entry if isinstance(entry, Sequence | np.ndarray) else empty for entry in values]


def _stacked(tables: Sequence[Tensor], names: Sequence[str], key: str) -> Tensor:
    """The tables of all rows under each other; one without any list is of NaN."""
    widths = {table.shape[1]: name for table, name in zip(tables, names, strict=True) if table.shape[1]}
    if len(widths) > 1:
        (first, one), (second, other) = list(widths.items())[:2]
        raise BatchError(
            f"trace {other}: {key} has {second} entries a token, trace {one} {first}; expected the same K for all; cut "
            f"heads to the least, and record as many draws everywhere"
        )
    width = next(iter(widths), 1)
    return torch.cat([table if table.shape[1] else table.new_full((len(table), width), torch.nan) for table in tables])


def _mask(row: Mapping[str, Any], name: str, length: int) -> Tensor:
    """The action mask of one row, True where nothing was said."""
    stated = row.get("action_mask")
    if stated is None:
        return torch.ones(length, dtype=torch.bool)
    array = np.asarray(stated.cpu() if isinstance(stated, Tensor) else stated)
    if array.dtype.kind not in "biu" or array.ndim != 1 or not np.isin(array, (0, 1)).all():
        raise BatchError(f"trace {name}: action_mask is {stated!r:.60}; expected True or False a token")
    return torch.from_numpy(array.astype(np.bool_))
