"""kumade.lab/1, made from schemas/kumade.lab.1.json by generate_documents.py."""

from typing import Dict, List, Literal, Optional, TypedDict

BottleneckKind = Literal["emulated", "htb", "virtual"]
"""What implements the bottleneck."""


class _BottleneckFactsRequired(TypedDict):
    delay_seconds: float
    """One-way propagation delay."""
    kind: BottleneckKind
    """What implemented it."""
    queue_bytes: int
    """Its queue's capacity."""
    rate_bits_per_second: int
    """Its capacity."""


class _BottleneckFactsOptional(TypedDict, total=False):
    down_bits_per_second: Optional[int]
    """Its capacity towards the host that measures; null where it is the same."""


class BottleneckFacts(_BottleneckFactsRequired, _BottleneckFactsOptional):
    """The link that limited the path, the same in both directions unless a rate down is given, as the
    scenario file states it: where rates were varied, those of the rows count."""


class _CapacitySummaryRequired(TypedDict):
    refusals: int
    """Those among them without a result; they are in no other figure."""
    runs: int
    """Runs that measured it."""


class _CapacitySummaryOptional(TypedDict, total=False):
    interval_coverage_ratio: Optional[float]
    """Coverage: share of the values whose interval covers the truth."""
    median_error_ratio: Optional[float]
    """Median of |value − truth| / truth."""
    worst_error_ratio: Optional[float]
    """The largest of them."""


class CapacitySummary(_CapacitySummaryRequired, _CapacitySummaryOptional):
    """Capacity beside that of the bottleneck. A figure is null where no run contributes to it."""


CrossKind = Literal["constant", "jittered", "poisson", "on-off", "tcp"]
"""How the packets of cross traffic follow each other."""


CrossSource = Literal["link", "packets"]
"""Whether cross traffic is computed or sent."""


class DelayRow(TypedDict):
    """A one-way delay beside the truth."""

    high: float
    """Upper bound."""
    low: float
    """Lower bound, whatever the offset of the clocks."""
    truth: float
    """Propagation, and the transmission of a probe packet on each link."""
    value: float
    """The estimate."""


class _DelaySummaryRequired(TypedDict):
    values: int
    """Number of values."""


class _DelaySummaryOptional(TypedDict, total=False):
    bound_coverage_ratio: Optional[float]
    """Coverage: share of the values whose bounds cover the truth."""
    median_bound_width_seconds: Optional[float]
    """Median distance between the bounds."""
    median_error_ratio: Optional[float]
    """Median of |value − truth| / truth."""
    worst_error_ratio: Optional[float]
    """The largest of them."""


class DelaySummary(_DelaySummaryRequired, _DelaySummaryOptional):
    """Minimum one-way delays of the idle path beside the truth."""


Direction = Literal["up", "down"]
"""One direction of a path."""


Rate = int
"""A rate in bits per second. Which layer's bits it counts is said where it is used; by default IP packets,
headers included (RFC 5136)."""


class Estimate_Rate(TypedDict):
    """A point estimate with an interval of stated confidence."""

    confidence: float
    """Confidence level of the interval, from 0 to 1: its nominal coverage of the true value. 1 means a hard
    bound; 0 means that the method states no confidence."""
    high: Rate
    """Upper end of the interval."""
    low: Rate
    """Lower end of the interval."""
    value: Rate
    """The point estimate."""


class Estimate_uint64(TypedDict):
    """A point estimate with an interval of stated confidence."""

    confidence: float
    """Confidence level of the interval, from 0 to 1: its nominal coverage of the true value. 1 means a hard
    bound; 0 means that the method states no confidence."""
    high: int
    """Upper end of the interval."""
    low: int
    """Lower end of the interval."""
    value: int
    """The point estimate."""


class _ShaperSummaryRequired(TypedDict):
    false_positives: int
    """Runs that detected one where there was none."""
    runs: int
    """Runs behind one that measured capacity."""
    undetected: int
    """Those among them that did not detect it."""


class _ShaperSummaryOptional(TypedDict, total=False):
    worst_burst_error_ratio: Optional[float]
    """The largest |burst − truth| / truth."""
    worst_rate_error_ratio: Optional[float]
    """The largest |rate − truth| / truth."""


class ShaperSummary(_ShaperSummaryRequired, _ShaperSummaryOptional):
    """Token buckets beside the truth."""


class FullSummary(TypedDict):
    """The results of full measurements over one transport."""

    capacity: CapacitySummary
    """Capacity beside the truth."""
    delay: DelaySummary
    """One-way delay of the idle path beside the truth, both directions together."""
    shaper: ShaperSummary
    """Token buckets beside the truth."""


class Interruption(TypedDict):
    """How far an experiment had come as it was interrupted."""

    of_runs: int
    """Runs that there are."""
    runs: int
    """Runs that were made."""


class _LimitsRequired(TypedDict):
    pass


class _LimitsOptional(TypedDict, total=False):
    available_median_error_ratio: Optional[float]
    """Median error of the available bandwidth."""
    burst_worst_error_ratio: Optional[float]
    """Error of a token bucket's size in the worst run."""
    capacity_median_error_ratio: Optional[float]
    """Median error of the capacity."""
    capacity_worst_error_ratio: Optional[float]
    """Error of the capacity in the worst run."""
    delay_worst_error_ratio: Optional[float]
    """Error of the one-way delay in the worst run."""
    mean_full_seconds: Optional[float]
    """Mean duration of a full measurement."""
    shaped_rate_worst_error_ratio: Optional[float]
    """Error of a token bucket's rate in the worst run."""


class Limits(_LimitsRequired, _LimitsOptional):
    """The errors and times that an experiment must not exceed; what is not named has no limit. A ratio is
    that of an error to the truth."""


class _PublishedFigureRequired(TypedDict):
    full: bool
    """Whether the time is that of a full measurement, and not of the available bandwidth alone."""
    series: str
    """What the paper calls it."""


class _PublishedFigureOptional(TypedDict, total=False):
    available_bits_per_second: Optional[int]
    """The estimate; null where there was none."""
    cross_bits_per_second: Optional[int]
    """Mean rate of the cross traffic."""
    method: Optional[str]
    """The estimator."""
    seconds: Optional[float]
    """How long it took."""
    truth_bits_per_second: Optional[int]
    """What was available; null where the paper does not know."""


class PublishedFigure(_PublishedFigureRequired, _PublishedFigureOptional):
    """One published result, and what it is about; null where that was the same for all, or was not said."""


class _PublishedSummaryRequired(TypedDict):
    figure: str
    """The paper's figures or tables."""
    mean_absolute_error_bits_per_second: Dict[str, float]
    """Its mean of |estimate − truth|, by transport."""
    setting: str
    """Its set-up or result in a few words."""
    system: str
    """The system measured there."""


class _PublishedSummaryOptional(TypedDict, total=False):
    figures: List[PublishedFigure]
    """Its other figures, in its order."""
    mean_absolute_error_methods: Dict[str, str]
    """Of which method that is, by transport: the one here that follows the paper's rule."""


class PublishedSummary(_PublishedSummaryRequired, _PublishedSummaryOptional):
    """The figures of the published experiment."""


class _ShaperReportRequired(TypedDict):
    burst_bytes: Estimate_uint64
    """Burst size: bytes that pass at the peak rate after an idle period. The interval reaches far up where
    earlier trains may have used up a part."""
    rate_bits_per_second: Estimate_Rate
    """Committed rate: the sustained rate."""


class _ShaperReportOptional(TypedDict, total=False):
    at_sender: bool
    """Whether it is the queue discipline of the sending host's own interface, as far as known: in direction
    down, servers of protocol version 3 do not say."""
    link_bits_per_second: Optional[Estimate_Rate]
    """Peak rate, at which a burst passes: the rate of the link; null if unknown."""


class ShaperReport(_ShaperReportRequired, _ShaperReportOptional):
    """A token bucket."""


class _TimelinePacketRequired(TypedDict):
    planned_seconds: float
    """When it was to be sent."""
    size_bytes: int
    """Bytes of the IP packet."""


class _TimelinePacketOptional(TypedDict, total=False):
    received_seconds: Optional[float]
    """When it was received; null without a time stamp."""
    sent_seconds: Optional[float]
    """When it was sent; null without a time stamp."""


class TimelinePacket(_TimelinePacketRequired, _TimelinePacketOptional):
    """One packet of a train. Times count from the sending of the train's first packet; both hosts share one
    clock."""


Transport = Literal["auto", "udp", "rake", "single"]
"""What carries the trains; `auto` leaves the choice to the measurement."""


class _RowRequired(TypedDict):
    bottleneck_bits_per_second: int
    """The bottleneck's capacity in the direction that was measured; of a token bucket, the sustained rate."""
    bytes_sent: int
    """IP bytes of trains."""
    connections: int
    """TCP connections that carried trains."""
    cross_bits_per_second: int
    """Mean rate that the cross traffic was set to; of TCP, the maximum that it was allowed to send."""
    cross_kind: CrossKind
    """How its packets follow each other."""
    direction: Direction
    """The direction of the trains, seen from the host that measured."""
    disturbed: bool
    """Whether this last repetition was disturbed as well."""
    duration_seconds: float
    """From the first request to the result."""
    method: str
    """The estimator with the parameters that differ from their defaults, as the command line writes it."""
    packets_sent: int
    """IP packets of trains."""
    repeats: int
    """How often the run was discarded and repeated, because host scheduling delay disturbed it."""
    run: int
    """Counted from 1 for each combination of the fields above."""
    trains: int
    """Trains that were sent."""
    trains_rejected: int
    """Trains that were not used."""
    transport: Transport
    """What carried the trains; `auto` only where nothing did."""
    truth_bits_per_second: int
    """The bottleneck's capacity less the cross traffic that reached it while trains were being sent."""
    warnings: List[str]
    """The measurement's warnings."""


class _RowOptional(TypedDict, total=False):
    available_bits_per_second: Optional[Estimate_uint64]
    """The estimate; null where the path could not be measured."""
    burst_bytes: Optional[int]
    """The token bucket's size; null where the bottleneck is none."""
    capacity_bits_per_second: Optional[Estimate_uint64]
    """The bottleneck's capacity, where it was measured and found; else null."""
    capacity_reason: Optional[str]
    """Why there is no capacity although it was measured; else null."""
    down_delay_seconds: Optional[DelayRow]
    """The same, down."""
    downstream_bits_per_second: Optional[int]
    """The rate of a link behind the bottleneck; null where there is none."""
    downstream_cross_bits_per_second: Optional[int]
    """Mean rate of the cross traffic on it."""
    downstream_cross_kind: Optional[CrossKind]
    """How its packets follow each other."""
    error_bits_per_second: Optional[int]
    """Estimate − truth; null where there is no estimate."""
    full_seconds: Optional[float]
    """Duration of a full measurement, with both directions, capacity and delay; null where it was not one."""
    max_lateness_seconds: Optional[float]
    """By how much the emulated link was late at most while trains were being sent; null where the kernel
    shapes."""
    peak_bits_per_second: Optional[int]
    """The rate at which a burst passes it."""
    reason: Optional[str]
    """Why there is no estimate; null where there is one."""
    shaper: Optional[ShaperReport]
    """The token bucket that was detected, where capacity was measured; else null."""
    spread_bits_per_second: Optional[int]
    """Standard deviation of the available bandwidth between trains; null where the method does not state
    it."""
    timeline: List[TimelinePacket]
    """When each packet of the first train was sent and received, where the experiment shows it."""
    up_delay_seconds: Optional[DelayRow]
    """The minimum one-way delay of the idle path up, where it was measured; else null."""


class Row(_RowRequired, _RowOptional):
    """The result of one run of one measurement, beside the truth. Rates count IP-layer bits (RFC 5136)."""


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


class _SummaryRequired(TypedDict):
    bias_bits_per_second: Dict[str, Dict[str, Optional[float]]]
    """Mean of estimate − truth."""
    interval_coverage_ratio: Dict[str, Dict[str, Optional[float]]]
    """Coverage: share of the estimates whose interval covers the run's truth."""
    mean_absolute_error_bits_per_second: Dict[str, Dict[str, Optional[float]]]
    """Mean of |estimate − truth|."""
    mean_absolute_error_to_capacity_ratio: Dict[str, Dict[str, Optional[float]]]
    """Mean of |estimate − truth| / capacity of the bottleneck."""
    mean_duration_seconds: Dict[str, Dict[str, Optional[float]]]
    """Mean duration of one direction."""
    mean_sent_bytes: Dict[str, Dict[str, Optional[float]]]
    """Mean number of IP bytes sent in trains in one direction."""
    median_relative_error_ratio: Dict[str, Dict[str, Optional[float]]]
    """Median of |estimate − truth| / truth."""
    repeats: Dict[str, Dict[str, int]]
    """Runs discarded and repeated, because host scheduling delay disturbed them."""
    runs: Dict[str, Dict[str, int]]
    """Runs in the rows."""
    runs_disturbed: Dict[str, Dict[str, int]]
    """Runs kept although they were disturbed, as no repetition was left."""
    runs_without_estimate: Dict[str, Dict[str, int]]
    """Those among them without an estimate; they are in no figure of error."""


class _SummaryOptional(TypedDict, total=False):
    full: Dict[str, FullSummary]
    """Capacity, token buckets and delay of full measurements, by transport; only where there were any."""
    mean_full_seconds: Dict[str, Dict[str, Optional[float]]]
    """Mean duration of full measurements, with both directions, capacity and delay; only where there were
    any."""
    mean_max_sending_delay_seconds: Dict[str, Dict[str, Optional[float]]]
    """Maximum delay of a packet of the first train behind its planned sending time, the mean over the runs;
    only where the experiment shows the train."""
    published: Optional[PublishedSummary]
    """What was published; null where the experiment repeats none."""


class Summary(_SummaryRequired, _SummaryOptional):
    """The rows summed up by transport and method. A figure is null where no run contributes to it. Runs that
    were discarded and repeated are in no figure but `repeats`; disturbed runs that were kept are in all."""


class _DocumentRequired(TypedDict):
    bottleneck: BottleneckFacts
    """The link that limited the path."""
    cross_source: CrossSource
    """Whether cross traffic was computed in the link or sent as packets."""
    experiment: str
    """The scenario's name."""
    firewall: List[str]
    """The firewall's rules in words; empty where there was none."""
    limits: Limits
    """The errors and times that it was not to exceed."""
    rows: List[Row]
    """One for each run, in the order of running."""
    schema: Literal["kumade.lab/1"]
    """The document's kind and version."""
    started: str
    """When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document,
    it is 1970-01-01T00:00:00Z."""
    summary: Summary
    """The rows summed up."""
    title: str
    """The scenario's question."""
    version: str
    """The version of kumade that ran it."""


class _DocumentOptional(TypedDict, total=False):
    interrupted: Optional[Interruption]
    """Where it was interrupted: after how many of its runs. Absent where it has all."""
    replaced_options: List[str]
    """Options, each with its value, that took the place of what was published, where it was run as published
    otherwise."""
    statements: List[StatementResult]
    """What the paper states and what came out here, where it was run as published."""


class Document(_DocumentRequired, _DocumentOptional):
    """The results of an experiment on accuracy."""
