"""What is in log files, and what keeps their traces from being trained on; reads, and writes nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ingest.faults import trace_faults
from ingest.files import open_lines
from ingest.lines import Line, Reader
from ingest.log_source import LogSource, ReadCall, ReadOutcome
from ingest.meaning import Deployment, Meaning
from ingest.reading import Reading
from ingest.rejects import final_reason
from ingest.settings import LogSettings
from ingest.sources import expand
from ingest.suggest import Seen, suggested
from schemas.errors import LineError
from schemas.progress import Progress, silent
from schemas.reasons import REASONS, Reason

UNKNOWN = "unknown"
_NO_CLOCK = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LogGroup:
    """What the calls of one format and deployment carry."""

    log_format: str
    deployment: str | None
    num_calls: int
    num_with_token_ids: int
    num_with_prompt_ids: int
    num_with_logprobs: int
    num_with_top_tokens: int
    num_streamed: int
    sampling: Mapping[str, int]
    """Calls by sampling parameters, spelled out."""
    versions: Mapping[str, int]
    """Calls by policy version."""
    logprob_kinds: Mapping[str, int]
    """Calls by what their log-probabilities are of."""
    codes: Mapping[str, int]
    """Calls by reason code, faults and notes."""
    engine: str | None
    """The serving engine of its first call."""
    models: tuple[str, ...]
    """The served models, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that keeps traces from being trained on, and what to switch on."""

    reason: Reason
    num_traces: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSummary:
    """What is in the files; the four states of lines add up."""

    num_files: int
    num_lines: int
    num_duplicates: int
    num_rejects: int
    num_blank: int
    num_calls: int
    num_traces: int
    num_trainable: int
    """Traces without a fault, as far as their calls show one by one."""
    rejects_by_reason: Mapping[str, int]
    file_notes: Mapping[str, int]
    groups: tuple[LogGroup, ...]
    outcomes: Mapping[str, int]
    """Scores beside the calls, by name."""
    missing: tuple[Missing, ...]
    """What keeps traces from being trained on, the most frequent first."""

    @property
    def suggested_settings(self) -> str | None:
        """Blocks for the settings file that say what these logs cannot; None when nothing of the kind is missing."""
        groups: dict[str | None, list[LogGroup]] = defaultdict(list)
        for group in self.groups:
            if group.num_with_logprobs and group.num_with_token_ids:  # no setting helps the others
                groups[group.deployment].append(group)
        return suggested(
            [
                Seen(
                    name,
                    next((group.engine for group in of_one if group.engine is not None), None),
                    tuple(dict.fromkeys(model for group in of_one for model in group.models)),
                    {code for group in of_one for code in group.codes},
                )
                for name, of_one in groups.items()
            ]
        )

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.num_traces:
            return "no call in these files can be read"
        if self.num_trainable == self.num_traces:
            return f"all {self.num_traces:,} traces are fit for ratio methods, as far as the log shows"
        return (
            f"{self.num_trainable:,} of {self.num_traces:,} traces are fit for ratio methods, as far as the log shows"
        )


@dataclass(slots=True)
class _Tally:
    """Counts of one group in the making."""

    calls: Counter[str] = field(default_factory=Counter)
    sampling: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    engine: str | None = None

    def add(self, read: ReadCall) -> None:
        """Count one call."""
        call = read.call
        self.calls.update(
            num_calls=1,
            num_with_token_ids=call.token_ids is not None,
            num_with_prompt_ids=call.prompt_token_ids is not None,
            num_with_logprobs=call.token_logprobs is not None,
            num_with_top_tokens=call.top_token_ids is not None,
            num_streamed=call.streamed,
        )
        self.sampling[_spelled(read.meaning)] += 1
        self.versions[read.meaning.policy_version or UNKNOWN] += 1
        self.kinds[read.meaning.logprob_kind if call.token_logprobs is not None else "none"] += 1
        self.codes.update(read.codes)
        self.models[call.model] += 1
        self.engine = self.engine or read.meaning.engine


@dataclass(slots=True)
class _TraceTally:
    """What is known of one trace: small, for there may be many."""

    faults: set[str] = field(default_factory=set)
    versions: set[str | None] = field(default_factory=set)
    workload: str | None = None
    num_calls: int = 0


def look(
    uris: Sequence[str],
    *,
    deployments: Mapping[str, Deployment],
    settings: LogSettings,
    progress: Progress = silent,
) -> LogSummary:
    """Read the files as landing would, and sum up what their calls carry and lack.

    Memory grows with the number of calls (an id each) and of traces, not with their tokens.
    """
    # Nothing is written, so neither the clock nor the salt of user hashes enters.
    source = LogSource(Reading(content_kind="calls", deployments=deployments, settings=settings, now=_NO_CLOCK))
    lines: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    tallies: dict[tuple[str, str | None], _Tally] = defaultdict(_Tally)
    traces: dict[str, _TraceTally] = defaultdict(_TraceTally)
    outcomes: Counter[str] = Counter()
    seen: set[str] = set()
    files = expand(uris)
    for uri in files:
        with open_lines(uri, settings.max_line_bytes) as reader:
            source.begin(reader.head)
            for line in _told(reader, progress, uri):
                try:
                    items = _items(source, line)
                except LineError as error:
                    lines["lines"] += 1
                    reasons[final_reason(line, error)] += 1
                    continue
                if items is None:  # a header is no line of content
                    continue
                lines["lines"] += 1
                new = [item for item in items if item.item_id not in seen]
                lines["blank" if not items else "landed" if new else "duplicates"] += 1
                seen.update(item.item_id for item in new)
                outcomes.update(item.outcome.name for item in new if isinstance(item, ReadOutcome))
                for read in new:
                    if isinstance(read, ReadCall):
                        tallies[read.call.log_format, read.meaning.deployment].add(read)
                        _add(traces[read.call.trace_id], read)
            notes.update(reader.notes)
    faults = _faults_of(traces.values())
    ordered = sorted(faults.items(), key=lambda item: (-item[1], item[0]))
    return LogSummary(
        num_files=len(files),
        num_lines=lines["lines"],
        num_duplicates=lines["duplicates"],
        num_rejects=reasons.total(),
        num_blank=lines["blank"],
        num_calls=sum(tally.calls["num_calls"] for tally in tallies.values()),
        outcomes=dict(outcomes.most_common()),
        num_traces=len(traces),
        num_trainable=faults[""],
        rejects_by_reason=dict(reasons.most_common()),
        file_notes=dict(notes.most_common()),
        groups=tuple(_group(key, tally) for key, tally in sorted(tallies.items(), key=lambda item: str(item[0]))),
        missing=tuple(Missing(REASONS[code], number) for code, number in ordered if code),
    )


def _told(reader: Reader, progress: Progress, uri: str) -> Iterator[Line]:
    for block in reader.blocks():
        yield from block
        progress(
            f"look at {Path(uri).name}", min(reader.bytes_taken, reader.size_on_disk), reader.size_on_disk, "bytes"
        )


def _items(source: LogSource, line: Line) -> Sequence[ReadCall | ReadOutcome] | None:
    if line.fault is not None:
        raise line.fault
    return source.read(line) if line.text.strip() else ()


def _add(trace: _TraceTally, read: ReadCall) -> None:
    trace.faults |= trace_faults(read.codes)
    trace.versions.add(read.meaning.policy_version)
    trace.workload = trace.workload or read.call.workload
    trace.num_calls += 1


def _faults_of(traces: Iterable[_TraceTally]) -> Counter[str]:
    """Traces by fault; those without any under the empty code."""
    found: Counter[str] = Counter()
    for trace in traces:
        faults = set(trace.faults)
        if len(trace.versions) > 1:
            faults.add("version_ambiguous")
        found.update(faults or [""])
    return found


def _group(key: tuple[str, str | None], tally: _Tally) -> LogGroup:
    return LogGroup(
        log_format=key[0],
        deployment=key[1],
        sampling=dict(tally.sampling.most_common()),
        versions=dict(sorted(tally.versions.items())),
        logprob_kinds=dict(tally.kinds.most_common()),
        codes=dict(tally.codes.most_common()),
        engine=tally.engine,
        models=tuple(model for model, _ in tally.models.most_common()),
        **{
            name: tally.calls[name]
            for name in (
                "num_calls",
                "num_with_token_ids",
                "num_with_prompt_ids",
                "num_with_logprobs",
                "num_with_top_tokens",
                "num_streamed",
            )
        },
    )


def _spelled(meaning: Meaning) -> str:
    def shown(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:g}"

    top_k = "off" if meaning.top_k == -1 else shown(meaning.top_k)
    return f"temperature {shown(meaning.temperature)}, top-p {shown(meaning.top_p)}, top-k {top_k}"
