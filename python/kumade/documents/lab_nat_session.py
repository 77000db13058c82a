"""kumade.lab.nat-session/1, made from schemas/kumade.lab.nat-session.1.json by generate_documents.py."""

from typing import List, Literal, Optional, TypedDict

class Spread(TypedDict):
    """The middle and the ends of some values."""

    max: float
    """The maximum."""
    median: float
    """The median."""
    min: float
    """The minimum."""


class _CaseSummaryRequired(TypedDict):
    altered_packets: int
    """Packets that arrived from another address than their host's."""
    case: str
    """What happened."""
    divided_packets: int
    """Packets that were divided."""
    flows: int
    """Flows in all runs."""
    idle: int
    """How many ended as idle."""
    lost: int
    """How many ended because a gateway was killed or no longer answered."""
    lost_packets: int
    """Packets that did not arrive."""
    max_requests: int
    """The most requests for one session."""
    opened: int
    """How many of them were opened."""
    runs: int
    """How many runs."""
    sent_packets: int
    """Packets that hosts have sent."""
    sessions: int
    """Sessions of these."""


class _CaseSummaryOptional(TypedDict, total=False):
    asked_seconds: Optional[Spread]
    """From a flow's first packet until its first session is asked for."""
    first_packet_wait_seconds: Optional[Spread]
    """How much longer than its path takes a flow's first packet was under way."""
    forgotten_seconds: Optional[Spread]
    """From then until the sending gateway has forgotten the session."""
    granted_seconds: Optional[Spread]
    """From a flow's first packet until the receiving gateway has its rule."""
    idle_ratio: Optional[Spread]
    """From a flow's last packet until it is divided no more, relative to the idle time; of sessions that end
    as idle."""
    opened_seconds: Optional[Spread]
    """From a flow's first packet until it is divided."""
    recovered_seconds: Optional[Spread]
    """From the moment when a gateway was killed until a flow had its next session."""
    removed_seconds: Optional[Spread]
    """From then until the receiving gateway has removed its rule."""


class CaseSummary(_CaseSummaryRequired, _CaseSummaryOptional):
    """The runs of one case. Where nothing of a kind happened, its value is null."""


SessionEnd = Literal["idle", "lost", "refused", "open"]
"""How a session ended."""


class _SessionRowRequired(TypedDict):
    asked_seconds: float
    """When the sending gateway began it (`NAT`)."""
    divided_packets: int
    """Packets that the sending gateway has divided, as its kernel counts them."""
    end: SessionEnd
    """How it ended."""
    requests: int
    """Requests that were sent."""
    restored_packets: int
    """Packets that were given their addresses back, likewise."""


class _SessionRowOptional(TypedDict, total=False):
    forgotten_seconds: Optional[float]
    """When the sending gateway forgot it (`+FIN`); null where it did not."""
    granted_seconds: Optional[float]
    """When the receiving gateway installed its rule; null where that was not seen."""
    idle_ratio: Optional[float]
    """For an idle one: the time from the last packet until the sending gateway stopped dividing, relative to
    the idle time."""
    last_packet_seconds: Optional[float]
    """When the host sent the last packet before the sending gateway stopped dividing, or the run ended."""
    left_seconds: Optional[float]
    """When the sending gateway stopped dividing (`FIN`); null where it did not, or never began."""
    opened_seconds: Optional[float]
    """From when the sending gateway divided the flow (`+OK`); null where it never did."""
    removed_seconds: Optional[float]
    """When the receiving gateway removed its rule; null where that was not seen."""


class SessionRow(_SessionRowRequired, _SessionRowOptional):
    """One session: from when its flow was noticed, or had to be asked for again, until the sending gateway
    forgets it."""


class _FlowRowRequired(TypedDict):
    altered_packets: int
    """Packets that arrived from another address."""
    flow: str
    """As its host sends it, such as `10.1.0.2:20000 > 10.2.0.2:9`."""
    lost_packets: int
    """Packets that did not arrive."""
    received_packets: int
    """Packets that arrived from the host's own address."""
    sent_packets: int
    """Packets that the host has sent."""
    sessions: List[SessionRow]
    """In their order."""


class _FlowRowOptional(TypedDict, total=False):
    first_packet_wait_seconds: Optional[float]
    """How much longer than its path takes the first packet was under way; null where it was lost, and in
    virtual time, whose gateways hold nothing back."""
    killed_seconds: Optional[float]
    """When a gateway was killed; null where none was."""


class FlowRow(_FlowRowRequired, _FlowRowOptional):
    """One flow, with the sessions that it had. Times are counted from the flow's first packet."""


class Interruption(TypedDict):
    """How far an experiment had come as it was interrupted."""

    of_runs: int
    """Runs that there are."""
    runs: int
    """Runs that were made."""


class _NatSessionRowRequired(TypedDict):
    case: str
    """What happened."""
    disturbed: bool
    """Whether this last repetition was disturbed as well."""
    flows: List[FlowRow]
    """The flows, in the order of their ports."""
    repeats: int
    """How often the run was discarded and repeated, because host scheduling delay disturbed it."""
    run: int
    """Counted from 1 for each case."""


class _NatSessionRowOptional(TypedDict, total=False):
    lateness_p99_seconds: Optional[float]
    """99th percentile of the delay behind schedule at which the emulated links delivered packets; null in
    virtual time."""


class NatSessionRow(_NatSessionRowRequired, _NatSessionRowOptional):
    """The result of one run."""


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


class _NatSessionSummaryRequired(TypedDict):
    cases: List[CaseSummary]
    """One for each case that was run, in their order."""


class _NatSessionSummaryOptional(TypedDict, total=False):
    published: Optional[Paper]
    """The published experiment that this one repeats; null where it repeats none."""


class NatSessionSummary(_NatSessionSummaryRequired, _NatSessionSummaryOptional):
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


class _DocumentRequired(TypedDict):
    experiment: str
    """The scenario's name."""
    idle_seconds: float
    """A session ends when no packet of its flow has passed for so long."""
    rows: List[NatSessionRow]
    """One for each run, in the order of running."""
    schema: Literal["kumade.lab.nat-session/1"]
    """The document's kind and version."""
    setting: str
    """The paths and the traffic, in words."""
    started: str
    """When the first run began: UTC, RFC 3339. In virtual time, where the same runs give the same document,
    it is 1970-01-01T00:00:00Z."""
    summary: NatSessionSummary
    """The rows summed up."""
    title: str
    """The scenario's question."""
    version: str
    """The version of kumade that ran it."""
    virtual: bool
    """Whether it ran in virtual time; else between real gateways."""


class _DocumentOptional(TypedDict, total=False):
    interrupted: Optional[Interruption]
    """Where it was interrupted: after how many of its runs. Absent where it has all."""
    replaced_options: List[str]
    """Options, each with its value, that took the place of what was published, where it was run as published
    otherwise."""
    statements: List[StatementResult]
    """What the paper states and what came out here, where it was run as published."""


class Document(_DocumentRequired, _DocumentOptional):
    """The results of an experiment on NAT sessions."""
