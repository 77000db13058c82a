"""kumade.lab.fairness/1, made from schemas/kumade.lab.fairness.1.json by generate_documents.py."""

from typing import Dict, List, Literal, Optional, TypedDict

class Delays(TypedDict):
    """Quantiles of a delay."""

    median_seconds: float
    """Median."""
    p95_seconds: float
    """95th percentile."""
    p99_seconds: float
    """99th percentile."""


class _DisciplineSummaryRequired(TypedDict):
    pass


class _DisciplineSummaryOptional(TypedDict, total=False):
    goodput_loss_ratio: Optional[float]
    """By how much the goodput of all cases together falls short of tail drop's; null where that was not
    run."""
    mean_jain_index: Optional[float]
    """Mean of the cases' indices."""
    min_jain_index: Optional[float]
    """The minimum of the indices of all cases and runs."""
    min_utilisation_ratio: Optional[float]
    """The minimum of the cases' utilisations."""


class DisciplineSummary(_DisciplineSummaryRequired, _DisciplineSummaryOptional):
    """A discipline over all cases."""


class DropCounts(TypedDict):
    """Packets at the bottleneck."""

    managed_packets: int
    """Dropped by active queue management."""
    marked_packets: int
    """Marked (ECN) instead of being dropped."""
    offered_packets: int
    """Packets that reached it."""
    queue_full_packets: int
    """Dropped because the queue was full."""


class Estimate_double(TypedDict):
    """A point estimate with an interval of stated confidence."""

    confidence: float
    """Confidence level of the interval, from 0 to 1: its nominal coverage of the true value. 1 means a hard
    bound; 0 means that the method states no confidence."""
    high: float
    """Upper end of the interval."""
    low: float
    """Lower end of the interval."""
    value: float
    """The point estimate."""


class FlowShare(TypedDict):
    """The share of one connection."""

    goodput_bits_per_second: float
    """Its goodput."""
    group: int
    """Its group, counted from 0."""


class _GroupShareRequired(TypedDict):
    connections: int
    """How many connections it has."""
    group: str
    """Congestion control, and the delay that is the group's own."""
    mean_goodput_bits_per_second: float
    """The mean of their goodputs."""


class _GroupShareOptional(TypedDict, total=False):
    queueing_mean_seconds: Optional[float]
    """Mean queueing delay of their packets at the bottleneck; null where none passed."""
    queueing_p99_seconds: Optional[float]
    """99th percentile of it."""


class GroupShare(_GroupShareRequired, _GroupShareOptional):
    """The share of one group of connections."""


class _FairnessRowRequired(TypedDict):
    added_delay_seconds: float
    """Round-trip delay added to all connections."""
    case: str
    """The network: the added delay, or the row of the table of mixes."""
    discipline: str
    """The discipline before the bottleneck, with its settings."""
    disturbed: bool
    """Whether this last repetition was disturbed as well."""
    drops: DropCounts
    """Packets that reached the bottleneck, and those dropped or marked there."""
    flows: List[FlowShare]
    """Each connection's, in the order of the groups."""
    goodput_bits_per_second: float
    """Sum of the goodputs."""
    groups: List[GroupShare]
    """By groups of connections, in the scenario's order."""
    repeats: int
    """How often the run was discarded and repeated, because host scheduling delay disturbed it."""
    run: int
    """Counted from 1 for each case and discipline. In virtual time the seed follows from it and the case."""
    utilisation_ratio: float
    """Utilisation of the bottleneck: what it carried, relative to its capacity."""


class _FairnessRowOptional(TypedDict, total=False):
    jain_index: Optional[float]
    """Jain's index of the goodputs of all connections; null where nothing arrived."""
    lateness_p99_seconds: Optional[float]
    """99th percentile of the delay behind schedule at which the emulated link delivered packets; null in
    virtual time."""
    queueing: Optional[Delays]
    """Queueing delay at the bottleneck; null where no packet passed."""


class FairnessRow(_FairnessRowRequired, _FairnessRowOptional):
    """The result of one run. Goodput counts payload that reached the receiving application, all else IP
    packets."""


class _PaperRequired(TypedDict):
    figure: str
    """The paper's figures or tables."""
    setting: str
    """Its set-up in a few words."""
    system: str
    """The system measured there."""


class _PaperOptional(TypedDict, total=False):
    result: Optional[str]
    """What it found, where figures do not say so."""


class Paper(_PaperRequired, _PaperOptional):
    """The published experiment that an experiment of the lab repeats."""


class _GroupSummaryRequired(TypedDict):
    group: str
    """Congestion control, and the delay that is the group's own."""


class _GroupSummaryOptional(TypedDict, total=False):
    goodput_bits_per_second: Optional[Estimate_double]
    """The mean goodput of its connections."""
    queueing_mean_seconds: Optional[float]
    """Mean queueing delay of their packets, the mean over the runs; null where none passed."""
    queueing_p99_seconds: Optional[float]
    """99th percentile of it, the mean over the runs."""


class GroupSummary(_GroupSummaryRequired, _GroupSummaryOptional):
    """The share of one group of connections."""


class PublishedShare(TypedDict):
    """What one discipline was published to make of a mix."""

    goodput_bits_per_second: float
    """Their sum."""
    jain_index: float
    """Jain's index of the goodputs."""


class PublishedMix(TypedDict):
    """What was published of one mix: by discipline, Jain's index of the goodputs, and their sum."""

    cebinae: PublishedShare
    """With Cebinae."""
    fifo: PublishedShare
    """With a plain first-in first-out queue."""
    fq_codel: PublishedShare
    """With FQ-CoDel."""


class _PointSummaryRequired(TypedDict):
    added_delay_seconds: float
    """Round-trip delay added to all connections."""
    case: str
    """The network."""
    discipline: str
    """The discipline."""
    groups: List[GroupSummary]
    """Of each group: the mean goodput of its connections."""
    runs: int
    """How many runs."""


class _PointSummaryOptional(TypedDict, total=False):
    drop_ratio: Optional[float]
    """Share of the packets that was dropped at the bottleneck."""
    goodput_bits_per_second: Optional[Estimate_double]
    """Sum of the goodputs."""
    jain_index: Optional[Estimate_double]
    """Jain's index of the goodputs of all connections, as all figures with an interval the mean over the
    runs; null where nothing arrived."""
    min_jain_index: Optional[float]
    """The minimum of the runs' indices."""
    published: Optional[PublishedMix]
    """What was published of this very case."""
    queueing_median_seconds: Optional[float]
    """Median queueing delay, the mean over the runs."""
    queueing_p95_seconds: Optional[float]
    """95th percentile of the queueing delay, the mean over the runs."""
    utilisation_ratio: Optional[Estimate_double]
    """Utilisation of the bottleneck."""


class PointSummary(_PointSummaryRequired, _PointSummaryOptional):
    """The runs of one case with one discipline."""


class _FairnessSummaryRequired(TypedDict):
    disciplines: Dict[str, DisciplineSummary]
    """For each discipline, over all cases."""
    points: List[PointSummary]
    """One for each case and discipline, in the order of running."""


class _FairnessSummaryOptional(TypedDict, total=False):
    published: Optional[Paper]
    """The published experiment that this one repeats; null where it repeats none."""


class FairnessSummary(_FairnessSummaryRequired, _FairnessSummaryOptional):
    """The rows summed up."""


class Interruption(TypedDict):
    """How far an experiment had come as it was interrupted."""

    of_runs: int
    """Runs that there are."""
    runs: int
    """Runs that were made."""


class _StatementResultRequired(TypedDict):
    says: str
    """In words, as the paper has it."""
    values: int
    """How many there are, …"""
    values_within: int
    """… and how many of these are within the bounds."""


class _StatementResultOptional(TypedDict, total=False):
    figure: str
    """What the figures are: a column of the rows, and by what it is divided."""
    holds: Optional[bool]
    """Whether it holds; null where nothing was measured, or not what it is about."""
    max: Optional[float]
    """What was to be reached at most."""
    max_value: Optional[float]
    """The greatest of them."""
    min: Optional[float]
    """What was to be reached at least."""
    min_value: Optional[float]
    """The least of them."""
    published: Optional[float]
    """The paper's figure; null where it has none."""
    reason: Optional[str]
    """Why it does not, where that is known; or why this is not known."""
    value: Optional[float]
    """The figure here, the median of several; null where nothing was measured."""


class StatementResult(_StatementResultRequired, _StatementResultOptional):
    """What a paper states, and what came out here."""


class _DocumentRequired(TypedDict):
    duration_seconds: float
    """How long shares were measured."""
    experiment: str
    """The scenario's name."""
    rows: List[FairnessRow]
    """One for each run, in the order of running."""
    schema: Literal["kumade.lab.fairness/1"]
    """The document's kind and version."""
    setting: str
    """The network, in words."""
    started: str
    """When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document,
    it is 1970-01-01T00:00:00Z."""
    summary: FairnessSummary
    """The rows summed up."""
    title: str
    """The scenario's question."""
    version: str
    """The version of kumade that ran it."""
    virtual: bool
    """Whether it ran in virtual time, with the simulator's TCP; else over the kernel's."""
    warm_up_seconds: float
    """How long connections ran before their shares were measured."""


class _DocumentOptional(TypedDict, total=False):
    interrupted: Optional[Interruption]
    """Where it was interrupted: after how many of its runs. Absent where it has all."""
    replaced_options: List[str]
    """Options, each with its value, that took the place of what was published, where it was run as published
    otherwise."""
    statements: List[StatementResult]
    """What the paper states and what came out here, where it was run as published."""


class Document(_DocumentRequired, _DocumentOptional):
    """The results of an experiment on fairness."""
