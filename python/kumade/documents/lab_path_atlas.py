"""kumade.lab.path-atlas/1, made from schemas/kumade.lab.path-atlas.1.json by generate_documents.py."""

from typing import Dict, List, Literal, Optional, TypedDict

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


FaultWord = Literal["value", "lower-bound", "upper-bound"]
"""A statement that is wrong with confidence."""


class _AtlasRowRequired(TypedDict):
    bytes_sent: int
    """IP bytes sent."""
    cross_bits_per_second: Rate
    """Mean rate of the cross traffic that does not react."""
    cross_flows: int
    """Flows of cross traffic."""
    duration_seconds: float
    """From the first train to the result."""
    kind: str
    """The kind of the path."""
    policed: bool
    """Whether a policer was reported."""
    seed: int
    """The path's seed: it draws the same path again."""
    sustained_bits_per_second: Rate
    """What the path carries in the long run without cross traffic."""
    transport: str
    """What carried the trains."""
    truth_bits_per_second: Rate
    """What was available while it was measured."""


class _AtlasRowOptional(TypedDict, total=False):
    at_least_bits_per_second: Optional[Rate]
    """A lower bound; null if there is none."""
    at_most_bits_per_second: Optional[Rate]
    """An upper bound; null if there is none."""
    available_bits_per_second: Optional[Estimate_Rate]
    """The estimate of the available bandwidth; null if there is none."""
    burst_bytes: Optional[int]
    """The burst of its policer or shaper; null if there is none."""
    committed_bits_per_second: Optional[Estimate_Rate]
    """The committed rate of a policer or shaper, as measured; null if none was."""
    disturbed: bool
    """Whether the last repetition was disturbed as well."""
    fair_share_bits_per_second: Optional[Estimate_Rate]
    """The estimate of the fair share of one flow; null if there is none."""
    fault: Optional[FaultWord]
    """The statement that is wrong with confidence; null if there is none."""
    link_bits_per_second: Optional[Rate]
    """The rate of its link, at which bursts pass."""
    reason: Optional[str]
    """Why there is no value; null if there is one."""
    repeats: int
    """How often it was repeated because host scheduling delay had disturbed it; 0 in virtual time."""
    sustained_bytes: Optional[int]
    """Bytes of the longest train that passed at about the value."""
    truth_fair_share_bits_per_second: Optional[Rate]
    """What one more flow could have; null without flow queueing."""


class AtlasRow(_AtlasRowRequired, _AtlasRowOptional):
    """One measurement of one path."""


class _KindSummaryRequired(TypedDict):
    kind: str
    """The kind of the paths."""
    mean_bytes: float
    """Mean IP bytes of a run."""
    mean_seconds: float
    """Mean duration of a run."""
    refusals: Dict[str, int]
    """Runs without a value, by cause."""
    runs: int
    """How many were measured."""
    transport: str
    """What carried the trains."""
    values: int
    """Those that gave a value."""
    wrong: int
    """Runs with a statement that is wrong with confidence."""


class _KindSummaryOptional(TypedDict, total=False):
    coverage_ratio: Optional[float]
    """Coverage: part of the values whose interval contains the truth; null without values."""
    max_added_queueing_seconds: Optional[float]
    """By how much at most."""
    max_goodput_lost_ratio: Optional[float]
    """The greatest part."""
    mean_absolute_error_ratio: Optional[float]
    """Mean absolute error relative to what the path carries without cross traffic; null without values."""
    mean_added_queueing_seconds: Optional[float]
    """By how much a run raised the 99th percentile of the queueing delay, on average; null without TCP
    connections."""
    mean_goodput_lost_ratio: Optional[float]
    """Mean part of their goodput that a run took from TCP connections; null without such cross traffic."""
    median_width_ratio: Optional[float]
    """Median width of the intervals relative to the truth; null without values."""
    proxies_named: int
    """Runs whose report says that a proxy ends the TCP connections."""


class KindSummary(_KindSummaryRequired, _KindSummaryOptional):
    """The runs of one kind over one transport. Ratios are from 0 to 1."""


class AtlasSummary(TypedDict):
    """All runs summed up."""

    kinds: List[KindSummary]
    """By kind and transport, in the order of running."""


class Interruption(TypedDict):
    """How far an experiment had come as it was interrupted."""

    of_runs: int
    """Runs that there are."""
    runs: int
    """Runs that were made."""


class LeftOut(TypedDict):
    """A kind of path, or a single one, that was not measured."""

    kind: str
    """The kind, and the transport where only that one is left out; also the seed where only one path is."""
    reason: str
    """Why not."""


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
    rows: List[AtlasRow]
    """One for each measurement."""
    schema: Literal["kumade.lab.path-atlas/1"]
    """The document's kind and version."""
    setting: str
    """Which paths were drawn, in words."""
    started: str
    """When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document,
    it is 1970-01-01T00:00:00Z."""
    summary: AtlasSummary
    """The rows summed up."""
    title: str
    """The scenario's question."""
    version: str
    """The version of kumade that ran it."""


class _DocumentOptional(TypedDict, total=False):
    interrupted: Optional[Interruption]
    """Where it was interrupted: after how many of its runs. Absent where it has all."""
    left_out: List[LeftOut]
    """Kinds of paths that could not be built in real time, or not on this machine, and transports that a kind
    does not pass."""
    replaced_options: List[str]
    """Options, each with its value, that took the place of what was published, where it was run as published
    otherwise."""
    statements: List[StatementResult]
    """What the paper states and what came out here, where it was run as published."""


class Document(_DocumentRequired, _DocumentOptional):
    """The results of an experiment on paths of many kinds."""
