"""kumade.lab.multipath/1, made from schemas/kumade.lab.multipath.1.json by generate_documents.py."""

from typing import List, Literal, Optional, TypedDict

class BlockRate(TypedDict):
    """What a connection carried that was written to in blocks of one length."""

    block_bytes: int
    """The length of each write."""
    goodput_bits_per_second: float
    """Payload that arrived per second."""
    no_delay: bool
    """Whether short segments left while others were not acknowledged (TCP_NODELAY)."""


Figure = Literal["goodput", "echo-median", "echo-p99", "recovery"]
"""A figure of a contender in a case."""


class _ComparedRequired(TypedDict):
    case: str
    """The set of paths."""
    contender: str
    """Whose figure."""
    figure: Figure
    """Which."""


_ComparedOptional = TypedDict(
    "_ComparedOptional",
    {
        "max": Optional[float],
        "min": Optional[float],
        "published": Optional[float],
        "value": Optional[float],
        "with": Optional[str],
    }, total=False,
)


class Compared(_ComparedRequired, _ComparedOptional):
    """How a comparison came out in one case."""


class Delays(TypedDict):
    """Quantiles of a delay."""

    median_seconds: float
    """Median."""
    p95_seconds: float
    """95th percentile."""
    p99_seconds: float
    """99th percentile."""


class EchoDelays(TypedDict):
    """Round trips of an echo."""

    round_trips: Delays
    """Of the packets that came back."""
    unanswered_ratio: float
    """Part of the packets that did not come back before the run ended."""


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


class Interruption(TypedDict):
    """How far an experiment had come as it was interrupted."""

    of_runs: int
    """Runs that there are."""
    runs: int
    """Runs that were made."""


Layer = Literal["upper", "lower"]
"""Of two that are stacked."""


class _ReorderingRequired(TypedDict):
    packets: int
    """Packets that arrived."""
    reordered_packets: int
    """Those that arrived after a later one (RFC 4737, section 3.3). Of TCP, that counts retransmissions that
    fill a gap, too."""


class _ReorderingOptional(TypedDict, total=False):
    max_extent_packets: Optional[int]
    """The largest."""
    median_extent_packets: Optional[int]
    """The extent of reordering (section 4.2.2): how many packets before, the first later one had arrived. The
    median over the reordered packets; null without any."""
    p95_extent_packets: Optional[int]
    """Its 95th percentile."""


class Reordering(_ReorderingRequired, _ReorderingOptional):
    """How far packets came out of order (RFC 4737)."""


class TraceSegment(TypedDict):
    """A segment of a TCP connection as it left, in the measured time."""

    connection: int
    """Which of the layer's connections, counted from 0 in the order of their first segments."""
    is_repeat: bool
    """Whether it repeats bytes that had left before."""
    layer: Layer
    """Of the flow, or of the connections that carry it."""
    payload_bytes: int
    """Its payload."""
    seconds: float
    """When it left, from the beginning of the measured time on."""
    sequence_bytes: int
    """How many bytes of the connection came before it, from its first segment in that time on."""


class _MultipathRowRequired(TypedDict):
    case: str
    """The set of paths."""
    contender: str
    """The plane, with its ratio."""
    disturbed: bool
    """Whether this last repetition was disturbed as well."""
    goodput_bits_per_second: float
    """Payload delivered per second."""
    path_ratios: List[float]
    """Each path's part of the packets that all carried."""
    repeats: int
    """How often the run was discarded and repeated, because host scheduling delay disturbed it."""
    run: int
    """Counted from 1 for each case and contender; also the seed."""


class _MultipathRowOptional(TypedDict, total=False):
    arrival_order: List[int]
    """The numbers of packets in the order of their arrival, for a part of the run."""
    blocks: List[BlockRate]
    """Goodput by the length of writes; empty where that was not varied."""
    congestion_control: Optional[str]
    """The congestion control of the flow; null for UDP."""
    echo: Optional[EchoDelays]
    """Of the echo beside the flow; null where there was none."""
    framing_ratio: Optional[float]
    """What the framing leaves: the payload of a full packet relative to its length on a path."""
    lateness_p99_seconds: Optional[float]
    """99th percentile of the delay behind schedule at which the emulated links delivered packets; null in
    virtual time."""
    longest_gap_seconds: Optional[float]
    """The longest time without an arrival at the application; null for UDP."""
    lost_packets: Optional[int]
    """Packets that did not arrive; null for TCP."""
    lower_congestion_control: Optional[str]
    """That of the connections that carry it; null where none do."""
    order: Optional[Reordering]
    """In which order packets arrived at the receiving host; null for Multipath TCP, whose connections are
    several."""
    recovery_seconds: Optional[float]
    """From the end of an outage until data of the flow arrived again; null where there was none, or none
    arrived."""
    retransmitted_segments: Optional[int]
    """TCP segments that were sent more than once; null for UDP."""
    share_of_framing_ratio: Optional[float]
    """Goodput relative to what the framing leaves of the sum of the paths' rates."""
    share_of_sum_ratio: Optional[float]
    """The same relative to the sum of the paths' rates; null where the paths have none."""
    sparse_added_p99_seconds: Optional[float]
    """The same above the delay of the shortest path, of 99 of 100 packets."""
    sparse_delay: Optional[Delays]
    """One-way delay of the sparse flow; null where there was none."""
    trace: List[TraceSegment]
    """The segments of both layers as they left, thinned out but for those that were repeated; empty where
    they were not recorded."""


class MultipathRow(_MultipathRowRequired, _MultipathRowOptional):
    """The result of one run. Goodput counts payload that reached the receiving application, the paths' rates
    IP packets."""


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


class _PublishedGoodputRequired(TypedDict):
    contender: str
    """The contender to which it compares, as reports write it."""
    source: str
    """Whose figure it is: `paper`, for example."""


class _PublishedGoodputOptional(TypedDict, total=False):
    goodput_bits_per_second: Optional[float]
    """The goodput; null where it is not told so."""
    share_of_sum_ratio: Optional[float]
    """The share of the sum of the paths' rates; null where it is not told so."""


class PublishedGoodput(_PublishedGoodputRequired, _PublishedGoodputOptional):
    """What was published, or measured elsewhere, of one contender on such paths."""


class _PointSummaryRequired(TypedDict):
    case: str
    """The set of paths."""
    contender: str
    """The plane, with its ratio."""
    published: List[PublishedGoodput]
    """What was published of this contender on such paths."""
    runs: int
    """How many runs."""


class _PointSummaryOptional(TypedDict, total=False):
    congestion_control: Optional[str]
    """The congestion control of the flow; null for UDP."""
    echo_median_seconds: Optional[float]
    """Round trips of the echo, of the packets that came back: the median of the runs' medians."""
    echo_p99_seconds: Optional[float]
    """The median of the runs' 99th percentiles."""
    echo_unanswered_ratio: Optional[float]
    """Part of the echo's packets that did not come back, the mean over the runs."""
    framing_ratio: Optional[float]
    """What the framing leaves."""
    goodput_bits_per_second: Optional[Estimate_double]
    """Goodput: the mean over the runs, with its 95 % interval."""
    longest_gap_seconds: Optional[float]
    """The longest time without an arrival at the application, the greatest of the runs."""
    lost_packets: Optional[float]
    """Packets that did not arrive, the mean over the runs."""
    lower_congestion_control: Optional[str]
    """That of the connections that carry it; null where none do."""
    max_extent_packets: Optional[int]
    """The largest extent of reordering."""
    min_goodput_bits_per_second: Optional[float]
    """The minimum of the runs."""
    min_share_of_framing_ratio: Optional[float]
    """The minimum of the runs."""
    min_share_of_sum_ratio: Optional[float]
    """The minimum of the runs."""
    p95_extent_packets: Optional[float]
    """The 95th percentile of the extent of reordering, the mean over the runs."""
    received_packets: Optional[float]
    """Packets that arrived, the mean over the runs."""
    recovery_seconds: Optional[float]
    """From the end of an outage until data arrived again: the median of the runs."""
    reordered_packets: Optional[float]
    """Packets that arrived out of order, the mean over the runs."""
    required_share_ratio: Optional[float]
    """The minimum share of what the framing leaves that is to be reached; null where none is stated."""
    retransmitted_segments: Optional[float]
    """TCP segments that were sent more than once, the mean over the runs."""
    share_of_framing_ratio: Optional[Estimate_double]
    """Goodput relative to what the framing leaves of the sum of the paths' rates."""
    share_of_sum_ratio: Optional[Estimate_double]
    """Goodput relative to the sum of the paths' rates."""
    sparse_added_p99_seconds: Optional[float]
    """99th percentile of the sparse flow's delay above that of the shortest path, the greatest of the
    runs."""


class PointSummary(_PointSummaryRequired, _PointSummaryOptional):
    """The runs of one case with one contender."""


class _MultipathSummaryRequired(TypedDict):
    points: List[PointSummary]
    """One for each case and contender, in the order of running."""


class _MultipathSummaryOptional(TypedDict, total=False):
    comparisons: List[Compared]
    """What the scenario asks about contenders, in each case."""
    published: Optional[Paper]
    """The published experiment that this one repeats; null where it repeats none."""


class MultipathSummary(_MultipathSummaryRequired, _MultipathSummaryOptional):
    """The rows summed up."""


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


WorkloadName = Literal["transfer", "numbered", "blocks", "flood"]
"""What the hosts sent."""


class _DocumentRequired(TypedDict):
    duration_seconds: float
    """How long goodput was measured."""
    experiment: str
    """The scenario's name."""
    rows: List[MultipathRow]
    """One for each run, in the order of running."""
    schema: Literal["kumade.lab.multipath/1"]
    """The document's kind and version."""
    setting: str
    """The paths and the traffic, in words."""
    started: str
    """When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document,
    it is 1970-01-01T00:00:00Z."""
    summary: MultipathSummary
    """The rows summed up."""
    title: str
    """The scenario's question."""
    version: str
    """The version of kumade that ran it."""
    virtual: bool
    """Whether it ran in virtual time, with the simulator's TCP; else over the kernel's."""
    warm_up_seconds: float
    """How long the flow ran before goodput was measured."""
    workload: WorkloadName
    """What the hosts sent."""


class _DocumentOptional(TypedDict, total=False):
    interrupted: Optional[Interruption]
    """Where it was interrupted: after how many of its runs. Absent where it has all."""
    replaced_options: List[str]
    """Options, each with its value, that took the place of what was published, where it was run as published
    otherwise."""
    skipped: List[str]
    """Contenders that could not be run on this host, and why."""
    statements: List[StatementResult]
    """What the paper states and what came out here, where it was run as published."""


class Document(_DocumentRequired, _DocumentOptional):
    """The results of an experiment on several paths."""
