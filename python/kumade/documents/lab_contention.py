"""kumade.lab.contention/1, made from schemas/kumade.lab.contention.1.json by generate_documents.py."""

from typing import Dict, List, Literal, Optional, TypedDict

class AttackShare(TypedDict):
    """What an attacker got."""

    goodput_bits_per_second: float
    """What came through."""
    offered_bits_per_second: float
    """What it sent."""
    pattern: str
    """What it sent, in words."""
    share_ratio: float
    """What came through, relative to an equal share of the bottleneck."""


class Delays(TypedDict):
    """Quantiles of a delay."""

    median_seconds: float
    """Median."""
    p95_seconds: float
    """95th percentile."""
    p99_seconds: float
    """99th percentile."""


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


class FlowShare(TypedDict):
    """The share of one connection."""

    goodput_bits_per_second: float
    """Its goodput."""
    group: int
    """Its group, counted from 0."""


class _ProbeDelaysRequired(TypedDict):
    lost_ratio: float
    """Part of the packets sent within that time that were lost."""
    packets: int
    """Those that were sent within the measured time and arrived, also after it."""


class _ProbeDelaysOptional(TypedDict, total=False):
    added: Optional[Delays]
    """What competition added to the delay of the idle path; null where none arrived."""


class ProbeDelays(_ProbeDelaysRequired, _ProbeDelaysOptional):
    """Delays of sparse packets."""


class _ShortFlowTimesRequired(TypedDict):
    started: int
    """Those that began early enough to be counted."""
    unfinished: int
    """Those that had not ended when the run did."""


class _ShortFlowTimesOptional(TypedDict, total=False):
    mean_seconds: Optional[float]
    """Mean time of those that ended; null without any."""
    times: Optional[Delays]
    """Quantiles of these times."""


class ShortFlowTimes(_ShortFlowTimesRequired, _ShortFlowTimesOptional):
    """How long short transfers took, from the first packet to the last acknowledgement, without a
    handshake."""


class _ContentionRowRequired(TypedDict):
    bulk_packets: int
    """Packets that bulk transfers sent; in real time, as many full packets as they delivered and sent
    again."""
    bulk_retransmissions: int
    """Packets of bulk transfers that they had to send again."""
    bulk_share_ratio: float
    """What the bulk transfers got together, relative to what max-min fairness leaves them beside the
    attacker's demand."""
    case: str
    """Who competed."""
    discipline: str
    """The discipline before the bottleneck, with its settings."""
    disturbed: bool
    """Whether this last repetition was disturbed as well."""
    drops: DropCounts
    """Packets that reached the bottleneck, and those dropped or marked there."""
    flows: List[FlowShare]
    """Each bulk transfer's share, in the order of the groups."""
    longest_stall_seconds: float
    """The longest time without an arrival of any one bulk transfer, to 10 ms."""
    repeats: int
    """How often the run was discarded and repeated, because host scheduling delay disturbed it."""
    run: int
    """Counted from 1 for each case and discipline."""
    seed: int
    """The seed of all its random numbers."""
    utilisation_ratio: float
    """Utilisation of the bottleneck: what it carried, relative to its capacity."""


class _ContentionRowOptional(TypedDict, total=False):
    attack: Optional[AttackShare]
    """What the attacker got; null without one."""
    jain_index: Optional[float]
    """Jain's index of the bulk transfers' shares; null where nothing arrived."""
    lateness_p99_seconds: Optional[float]
    """99th percentile of the delay behind schedule at which the emulated link delivered packets; null in
    virtual time."""
    probes: Optional[ProbeDelays]
    """What became of sparse packets; null without them."""
    queueing: Optional[Delays]
    """Queueing delay at the bottleneck; null where no packet passed."""
    short_flows: Optional[ShortFlowTimes]
    """What became of short transfers; null without them."""


class ContentionRow(_ContentionRowRequired, _ContentionRowOptional):
    """The result of one run. Rates count IP packets that came through the bottleneck."""


class Spread(TypedDict):
    """A figure over several runs."""

    mean: float
    """The mean over the runs."""
    worst: float
    """That of the worst run: the maximum, or the minimum where more is better."""


class PointSummary(TypedDict):
    """The runs of one case with one discipline."""

    case: str
    """Who competed."""
    discipline: str
    """The discipline before the bottleneck, with its settings."""
    figures: Dict[str, Spread]
    """What they came to, by the names of the figures, each of which ends in its unit. A figure that no run
    has is missing."""
    runs: int
    """How many runs there were."""


class ContentionSummary(TypedDict):
    """All runs summed up."""

    points: List[PointSummary]
    """By case and discipline, in the order of running."""


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
    experiment: str
    """The scenario's name."""
    rows: List[ContentionRow]
    """One for each run."""
    schema: Literal["kumade.lab.contention/1"]
    """The document's kind and version."""
    setting: str
    """The network and what competes for it, in words."""
    started: str
    """When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document,
    it is 1970-01-01T00:00:00Z."""
    summary: ContentionSummary
    """The rows summed up."""
    title: str
    """The scenario's question."""
    version: str
    """The version of kumade that ran it."""


class _DocumentOptional(TypedDict, total=False):
    found_cases: Optional[str]
    """The attackers that a search has found, as cases of a scenario file; null without a search."""
    interrupted: Optional[Interruption]
    """Where it was interrupted: after how many of its runs. Absent where it has all."""
    replaced_options: List[str]
    """Options, each with its value, that took the place of what was published, where it was run as published
    otherwise."""
    statements: List[StatementResult]
    """What the paper states and what came out here, where it was run as published."""


class Document(_DocumentRequired, _DocumentOptional):
    """The results of an experiment on contention."""
