"""kumade.lab.fast-links/1, made from schemas/kumade.lab.fast-links.1.json by generate_documents.py."""

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


class _FastLinkRowRequired(TypedDict):
    bottleneck_bits_per_second: Rate
    """The bottleneck's rate."""
    bytes_sent: int
    """IP bytes sent."""
    carried_bits_per_second: Rate
    """What this machine carried on that link of bursts that were sent at a tenth more than its rate, before
    the measurements."""
    cross_bits_per_second: Rate
    """Mean rate that the cross traffic was set to."""
    disturbed: bool
    """Whether the last repetition was disturbed as well: it shows this machine, not the link, and is not
    judged."""
    duration_seconds: float
    """From the first train to the result."""
    mtu_bytes: int
    """Of all devices."""
    repeats: int
    """How often it was repeated because the emulated link had been late."""
    run: int
    """Counted from 1 for each combination of the fields above."""
    transport: str
    """What carried the trains."""
    truth_bits_per_second: Rate
    """The bottleneck's rate, to packets of the trains' size, less the cross traffic that was sent
    meanwhile."""
    warnings: List[str]
    """The measurement's warnings."""


class _FastLinkRowOptional(TypedDict, total=False):
    at_least_bits_per_second: Optional[Rate]
    """A lower bound; null if there is none."""
    at_most_bits_per_second: Optional[Rate]
    """An upper bound; null if there is none."""
    available_bits_per_second: Optional[Estimate_Rate]
    """The estimate of the available bandwidth; null if there is none."""
    covers_truth: Optional[bool]
    """Whether the interval contains the truth; null without a value."""
    error_ratio: Optional[float]
    """|value − truth| as a part of the truth; null without a value."""
    fault: Optional[FaultWord]
    """The statement that is wrong with confidence; null if there is none."""
    limited_by: Optional[str]
    """Why there is no more than a bound, in the words of kumade.measure; null if there is no bound."""
    reason: Optional[str]
    """Why there is no value; null if there is one."""


class FastLinkRow(_FastLinkRowRequired, _FastLinkRowOptional):
    """One measurement of one fast link. Rates count IP packets."""


class _PathSummaryRequired(TypedDict):
    bottleneck_bits_per_second: Rate
    """The bottleneck's rate."""
    cross_bits_per_second: Rate
    """Mean rate of the cross traffic."""
    disturbed: int
    """Those whose last repetition was disturbed; they count in none of the figures below."""
    limited_by_sender: int
    """Runs whose report says that the sender was the limit."""
    mtu_bytes: int
    """Of all devices."""
    refusals: Dict[str, int]
    """Runs without a value, by cause."""
    runs: int
    """How many."""
    transport: str
    """What carried the trains."""
    values: int
    """Those that gave a value."""
    wrong: int
    """Runs with a statement that is wrong with confidence."""


class _PathSummaryOptional(TypedDict, total=False):
    coverage_ratio: Optional[float]
    """Coverage: part of the values whose interval contains the truth."""
    mean_bytes: Optional[float]
    """Mean IP bytes of a run; null where all were disturbed."""
    mean_seconds: Optional[float]
    """Mean duration of a run; null where all were disturbed."""
    median_at_least_bits_per_second: Optional[Rate]
    """Median of the lower bounds in place of values; null without any."""
    median_error_ratio: Optional[float]
    """Median of |value − truth| / truth."""


class PathSummary(_PathSummaryRequired, _PathSummaryOptional):
    """The runs on one path over one transport. Ratios are from 0 to 1; those of values are null without
    any."""


class _FastLinksSummaryRequired(TypedDict):
    paths: List[PathSummary]
    """By bottleneck, cross traffic and transport, in the order of running."""
    wrong: int
    """Runs with a statement that is wrong with confidence."""


class _FastLinksSummaryOptional(TypedDict, total=False):
    udp_median_error_ratio: Optional[float]
    """Median of the errors of all values over UDP, relative to the truth; null without values."""


class FastLinksSummary(_FastLinksSummaryRequired, _FastLinksSummaryOptional):
    """All runs summed up."""


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
    rows: List[FastLinkRow]
    """One for each measurement."""
    schema: Literal["kumade.lab.fast-links/1"]
    """The document's kind and version."""
    setting: str
    """What was built, in words."""
    started: str
    """When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document,
    it is 1970-01-01T00:00:00Z."""
    summary: FastLinksSummary
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
    """The results of an experiment on links of gigabits per second."""
