"""kumade.measure/1, made from schemas/kumade.measure.1.json by generate_documents.py."""

from typing import Dict, List, Literal, Optional, TypedDict

NatFiltering = Literal["endpoint-independent", "address-dependent", "address-and-port-dependent", "not-address-and-port-dependent"]
"""Which packets from outside are let in to a port of this host from which packets have been sent (RFC 4787,
5)."""


NatMapping = Literal["endpoint-independent", "address-dependent", "address-and-port-dependent", "not-address-and-port-dependent"]
"""How an address translator maps an address and port of this host (RFC 4787, 4.1)."""


class AddressReport(TypedDict):
    """The address and port of this host."""

    filtering: Optional[NatFiltering]
    """Which packets are let in that nobody inside has asked for (RFC 4787, 5), by an address translator or a
    firewall; null if that was not asked for, or is not known, and for TCP."""
    is_far_end_translated: Optional[bool]
    """Whether the far end has another address or port than this host has connected to, so that its end is
    behind an address translator or a forwarder; null if that is not known."""
    is_port_preserved: bool
    """Whether the port is the same (port preservation, RFC 4787, 4.2.1)."""
    is_translated: bool
    """Whether the address was translated on the way (NAT)."""
    local: str
    """Here."""
    mapping: Optional[NatMapping]
    """How the address translator maps one port of this host towards several ports and addresses (RFC 4787,
    4.1; RFC 5382, 4.1); null if the address is not translated, or that was not asked for, or is not known.
    Where the port is preserved, one that maps each flow by itself, as Linux does, looks
    endpoint-independent."""
    seen: str
    """As the far end sees them."""


BufferbloatGrade = Literal["A+", "A", "B", "C", "D", "F"]
"""The grade of an added delay, as DSLReports' and Waveform's tests give it."""


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


class PolicerReport(TypedDict):
    """A policer."""

    burst_bytes: Optional[Estimate_uint64]
    """Burst size: bytes that pass after an idle period before packets are dropped; null if unknown."""
    link_bits_per_second: Optional[Estimate_Rate]
    """Rate of the link, at which a burst passes; null if unknown."""
    rate_bits_per_second: Optional[Estimate_Rate]
    """Committed rate: packets beyond it are dropped; null if unknown."""


class ShaperReport(TypedDict):
    """A token bucket."""

    at_sender: bool
    """Whether it is the queue discipline of the sending host's own interface, as far as known: in direction
    down, servers of protocol version 3 do not say."""
    burst_bytes: Estimate_uint64
    """Burst size: bytes that pass at the peak rate after an idle period. The interval reaches far up where
    earlier trains may have used up a part."""
    link_bits_per_second: Optional[Estimate_Rate]
    """Peak rate, at which a burst passes: the rate of the link; null if unknown."""
    rate_bits_per_second: Estimate_Rate
    """Committed rate: the sustained rate."""


class CapacityReport(TypedDict):
    """The capacity of one direction: the rate of its narrow link without cross traffic (RFC 5136)."""

    at_least_bits_per_second: Optional[Rate]
    """A lower bound of it; null if there is a value, or no bound."""
    bottleneck_bits_per_second: Optional[Estimate_Rate]
    """The sustained rate of the narrow link; behind a token bucket, its committed rate. Null if it could not
    be determined."""
    bursts: int
    """Bursts of packets that were used."""
    bytes_sent: int
    """Bytes of those packets, including IP headers."""
    duration_seconds: float
    """Time from the first train to the result."""
    packets_sent: int
    """Probe packets sent to measure the capacity."""
    policer: Optional[PolicerReport]
    """A policer on the path: a token bucket that drops what exceeds its rate; null if none was detected."""
    reason: Optional[str]
    """Why there is no value, or no peak rate of a token bucket; null if there is."""
    shaper: Optional[ShaperReport]
    """A token bucket on the path that delays what exceeds its rate; null if none was detected."""


EcnCodepoint = Literal["not-ect", "ect0", "ect1", "ce"]
"""A codepoint of the ECN field (RFC 3168)."""


class ClassOfServiceCount(TypedDict):
    """Packets that were sent alike and arrived alike."""

    arrived_dscp: int
    """DSCP with which they arrived."""
    arrived_ecn: EcnCodepoint
    """ECN codepoint with which they arrived."""
    packets: int
    """How many."""
    sent_dscp: Optional[int]
    """DSCP with which they were sent; null if the reflector does not say."""
    sent_ecn: Optional[EcnCodepoint]
    """ECN codepoint with which they were sent; null if the reflector does not say."""


class ClassOfServiceReport(TypedDict):
    """What became of DSCP (RFC 2474) and ECN (RFC 3168) in each direction."""

    down: List[ClassOfServiceCount]
    """Their answers, most frequent first."""
    refused: int
    """Answers that did not leave with the DSCP that was asked for, since the reflector's policy does not
    permit it."""
    up: List[ClassOfServiceCount]
    """Test packets that arrived at the reflector and whose answers came back, most frequent first."""


ClassQueue = Literal["as-best-effort", "waits-less", "waits-longer", "not-sure"]
"""Whether packets wait as long as those of best effort that are sent at the same time."""


class ServedPackets(TypedDict):
    """Packets that arrived before all of either kind had, of as many of each."""

    best_effort_packets: int
    """Of best effort."""
    packets: int
    """With the codepoint."""


class ClassQueueReport(TypedDict):
    """What packets with a DSCP, or ECT(1), meet beside best effort."""

    arrived: int
    """Those that arrived."""
    best_effort_queueing_delay_seconds: Optional[float]
    """Median of what best effort waited at the same time; null as above."""
    mark: str
    """The name of the DSCP, or its number; `ECT(1)` with DSCP zero."""
    queue: ClassQueue
    """What their waiting times say."""
    queueing_delay_seconds: Optional[float]
    """Median of their queueing delays, where best effort waited meanwhile; null if it hardly did."""
    sent: int
    """Packets that were sent between those of best effort."""
    served: Optional[ServedPackets]
    """What the link carries of both if each would fill it alone; null if they have one queue, or that was not
    looked at."""


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


class StepReport(TypedDict):
    """A step of one of the clocks."""

    after_seconds: float
    """Time from the first probe to the step."""
    size_seconds: float
    """Change of the offset: by how many seconds the peer's clock is further ahead than before."""


class ClockReport(TypedDict):
    """The peer's clock relative to this host's clock."""

    far_error_seconds: Optional[float]
    """Maximum error of the peer's clock against UTC, as the peer states it; null if unknown (the clock is
    unsynchronised)."""
    near_error_seconds: Optional[float]
    """Maximum error of this host's clock against UTC; null if unknown (the clock is unsynchronised)."""
    offset_seconds: Estimate_double
    """By how many seconds the peer's clock is ahead; negative if it is behind."""
    skew: Estimate_double
    """By which fraction the peer's clock runs faster: 1e-6 is 1 ppm."""
    steps: List[StepReport]
    """Steps of either clock during the measurement."""


class MarkingThresholdReport(TypedDict):
    """A queueing delay from which on packets are marked."""

    high_seconds: float
    """It is no more."""
    is_gradual: bool
    """Whether only some are marked at first, and more where the delay is longer."""
    low_seconds: float
    """It is no less."""
    marked_above: int
    """Those of them that were marked."""
    packets_above: int
    """Packets that waited at least `high_seconds`."""


class CodepointMarkingReport(TypedDict):
    """Packets of one codepoint."""

    arrived: int
    """Packets that arrived, with a stamp of their own."""
    mark: str
    """The codepoint with which they were sent."""
    marked: int
    """Those that arrived with CE."""
    marked_from: Optional[MarkingThresholdReport]
    """From which queueing delay on they are marked; null if none is, or marks do not depend on the delay."""
    max_queueing_delay_seconds: Optional[float]
    """The queueing delay that at least three of them came to; null if fewer arrived."""
    sent: int
    """Packets that were sent."""


class CountersReport(TypedDict):
    """What both ends counted between two test packets."""

    answered: int
    """Answers that the reflector sent."""
    received: int
    """Test packets that the reflector received."""
    sent: int
    """Test packets that this host sent."""


class DelayFigures(TypedDict):
    """Statistics of the delays of many packets."""

    median_seconds: Estimate_double
    """The median."""
    minimum_seconds: Estimate_double
    """The minimum."""
    packets: int
    """Number of packets."""
    percentile_95_seconds: Estimate_double
    """The 95th percentile."""
    percentile_99_seconds: Estimate_double
    """The 99th percentile."""
    variation_95_seconds: float
    """The 95th percentile of the packet delay variation: delay above the minimum (PDV, RFC 5481, 4.2)."""
    variation_99_seconds: float
    """The 99th percentile of the packet delay variation."""


class LocationReport(TypedDict):
    """Between which addresses test packets came, as a reflector saw it. Each is null if the reflector does
    not say."""

    destination_address: Optional[str]
    """The reflector's address."""
    destination_port: Optional[int]
    """The reflector's port."""
    source_address: Optional[str]
    """The sender's address: another than this host's own if an address translator is between."""
    source_port: Optional[int]
    """The sender's port."""


SynchronisationSource = Literal["ntp", "ptp", "ssu", "navigation", "local"]
"""What a clock is set by (RFC 8972, 5.4)."""


TimestampMethod = Literal["hardware", "software", "control-plane"]
"""How a time stamp is taken (RFC 8972, 5.5)."""


class TimestampsReport(TypedDict):
    """How a reflector's clock is set and read. Each is null if the reflector does not say."""

    method_in: Optional[TimestampMethod]
    """How it is read when a test packet arrives."""
    method_out: Optional[TimestampMethod]
    """How it is read when an answer leaves."""
    source_in: Optional[SynchronisationSource]
    """What the clock is set by of which arrivals have their time stamps."""
    source_out: Optional[SynchronisationSource]
    """What the clock is set by of which departures have their time stamps."""


class ExtensionsReport(TypedDict):
    """What a STAMP reflector says in the optional extensions of RFC 8972. Each value is null if it was not
    asked for, or no answer has it."""

    class_of_service: Optional[ClassOfServiceReport]
    """What became of DSCP and ECN in each direction (Class of Service, 4.4)."""
    counters: Optional[CountersReport]
    """What both ends counted between the first and the last answered test packet (Direct Measurement,
    4.5)."""
    location: Optional[LocationReport]
    """Between which addresses the last answered test packet came, as the reflector saw it (Location, 4.2)."""
    not_authentic: int
    """Answers whose extensions were not used, since they, or those of the test packet as the reflector got
    them, were not authentic (HMAC TLV, RFC 8972, 4.8)."""
    reply_lateness_seconds: Optional[float]
    """By how much answers left later than their own time stamps say, the median (Follow-Up Telemetry,
    4.7)."""
    timestamps: Optional[TimestampsReport]
    """How the reflector's clock is set and read (Timestamp Information, 4.3)."""
    unanswered: List[str]
    """What was asked for and no answer has, by the names of IANA's registry: the reflector does not know
    these extensions."""


class PacketReport(TypedDict):
    """Counts of packets that were sent, arrived, were lost, duplicated or reordered."""

    arrived: int
    """Packets that arrived in time: within one second for probe and reply together."""
    duplicates: Optional[int]
    """Duplicates (RFC 5560); null for trains, whose receivers ignore them."""
    late: Optional[int]
    """Packets that arrived later, which are not counted as lost. Null for trains: their receivers do not wait
    for late packets and count them as lost."""
    loss_ratio: Estimate_double
    """Ratio of lost to sent packets, with a confidence interval for the path's loss ratio, if losses are
    independent."""
    lost: int
    """Packets that did not arrive."""
    reordered: int
    """Reordered packets: those that arrived after one that was sent later (RFC 4737)."""
    reordering_extent: int
    """Maximum reordering extent in packets (RFC 4737, 4.2)."""
    reordering_ratio: float
    """Ratio of reordered packets to those that arrived."""
    sent: int
    """Packets sent."""


class DelayReport(TypedDict):
    """Round-trip and one-way delay (RFC 7679), with bounds that hold for any error of the clocks, and the
    loss (RFC 7680), duplication and reordering of the probe packets."""

    clock: Optional[ClockReport]
    """The peer's clock relative to this host's; null if unknown."""
    down: Optional[DelayFigures]
    """One-way delay from the peer to this host, without load by the measurement."""
    down_hops: Optional[int]
    """Routers in direction down, from the remaining TTL; null if the reflector does not send with a TTL of
    255."""
    down_loaded: Optional[DelayFigures]
    """One-way delay from the peer to this host while packet trains load that direction; null if none did."""
    down_loaded_packets: Optional[PacketReport]
    """Packet counts in direction down of the trains that load the path; null as for `up_loaded_packets`."""
    down_loaded_round_trip: Optional[DelayFigures]
    """Round-trip delay while packet trains load direction down; null if none did."""
    down_packets: Optional[PacketReport]
    """Packet counts in direction down, without load by the measurement; null as for `up_packets`."""
    extensions: Optional[ExtensionsReport]
    """What a STAMP reflector says in the optional extensions of RFC 8972; null if it was not asked."""
    probes: str
    """Kind of probes: `stamp` (RFC 8762) or `trains` (packet trains in each direction)."""
    reason: Optional[str]
    """Why values are missing; null if none are."""
    round_trip: Optional[DelayFigures]
    """Round-trip delay without the reflector's processing time, without load by the measurement. With trains,
    it is the sum of one-way delays, each up with each down, on which the clocks' offset has no influence.
    Null if packets travelled in one direction only."""
    round_trip_packets: Optional[PacketReport]
    """Packet counts of the round trip; null if packets travelled in one direction only."""
    up: Optional[DelayFigures]
    """One-way delay from this host to the peer, without load by the measurement."""
    up_hops: Optional[int]
    """Routers in direction up, from the remaining TTL; null if the reflector does not report it."""
    up_loaded: Optional[DelayFigures]
    """One-way delay from this host to the peer while packet trains load that direction; null if none did."""
    up_loaded_packets: Optional[PacketReport]
    """Packet counts in direction up of the trains that load the path, which may cause loss themselves; null
    if there are none, and over TCP."""
    up_loaded_round_trip: Optional[DelayFigures]
    """Round-trip delay while packet trains load direction up; null if none did."""
    up_packets: Optional[PacketReport]
    """Packet counts in direction up, without load by the measurement; null if the reflector does not number
    its replies by itself, and over TCP, where retransmission hides loss."""
    warnings: List[str]
    """Circumstances that limit the validity of the values."""


class LoadBalancingReport(TypedDict):
    """Load balancing by flow: several links side by side, of which each flow takes one (RFC 2991)."""

    delays_seconds: List[float]
    """By how much packets take longer on each link than on the fastest one, in rising order."""
    many_flows_bits_per_second: Optional[Estimate_Rate]
    """What many flows can have together: the sum over the links. Null if not every link could be measured."""


class LoadReport(TypedDict):
    """Round trips while TCP connections fill the path in one direction, in the second half of that time."""

    added_delay_seconds: Optional[Estimate_double]
    """By how much the median has grown; the bounds are the least and the greatest that a quarter of that half
    gave. Null if too few messages were answered."""
    best_grade: Optional[BufferbloatGrade]
    """The bufferbloat grade of the lower bound; null as above."""
    bytes: int
    """Payload bytes that they carried."""
    connections: int
    """TCP connections that always had something to send."""
    duration_seconds: float
    """How long they sent."""
    goodput_bits_per_second: Optional[Rate]
    """Payload that they carried in the second half of the time, all together (bulk transfer capacity, RFC
    3148); null if it is not known."""
    idle_round_trip_seconds: Optional[float]
    """Median round trip of small messages on another TCP connection, before; null if none was answered."""
    reason: Optional[str]
    """Why there is no worst grade; null if there is one."""
    round_trip_seconds: Optional[float]
    """The same in the second half of the time; null as above."""
    worst_grade: Optional[BufferbloatGrade]
    """The bufferbloat grade of the upper bound; null as above, and if the connections did not fill the path,
    so that the delay may be longer."""


Transport = Literal["udp", "rake", "single"]
"""What carries a train's packets."""


class DirectionReport(TypedDict):
    """The result of one direction."""

    at_least_bits_per_second: Optional[Rate]
    """A lower bound of the available bandwidth: what could be sent did not fill the path. Null if there is a
    value, or no bound. Published methods state the end of their range as a value, too."""
    at_most_bits_per_second: Optional[Rate]
    """An upper bound of the available bandwidth: the lowest rate that was tried exceeded it. Null as
    above."""
    available_bits_per_second: Optional[Estimate_Rate]
    """The available bandwidth (RFC 5136), averaged over the measurement; null if it could not be determined.
    Where load balancing was detected, what one flow can have, whichever link it takes."""
    bytes_sent: int
    """Bytes of those packets, including IP headers."""
    capacity: Optional[CapacityReport]
    """The capacity; null if not requested."""
    connections: int
    """TCP connections in use at the end; zero for UDP."""
    duration_seconds: float
    """Time from the first train to the result."""
    fair_share_bits_per_second: Optional[Estimate_Rate]
    """What one more flow that always sends can have, where flows have queues of their own: its fair share. It
    may push others aside: the available bandwidth, which nobody uses, may be less. Null where flow queueing
    was not detected."""
    fastest_arrival_bits_per_second: Optional[Rate]
    """The fastest rate at which several packets in a row, or a whole train, arrived: the path carries no
    more. Null if that is not known."""
    limited_by: Optional[str]
    """Why there is no more than a bound: `sender` (it cannot send faster), `host` (which may take as long for
    each packet), `budget` (which was spent) `range` (the method tries no other rates) `token-bucket` (more
    passes for a burst only) `growing-queue` (a longer train at no more kept a queue growing or full) `loss`
    (a longer train at no more lost packets, and it was not told why) `nearly-full` (what is free may be what
    other connections give up to the trains) or `flow-queueing` (flows have queues of their own); null if
    there is no bound."""
    load: Optional[LoadReport]
    """What filling the path with TCP connections came to, the bufferbloat grade among it; null if not
    requested."""
    load_balancing: Optional[LoadBalancingReport]
    """The links side by side that connections take; null where none were detected, which takes many
    connections."""
    method: str
    """The name of the estimation method."""
    packets_sent: int
    """Probe packets sent to measure the available bandwidth."""
    reason: Optional[str]
    """Why there is no value; null if there is one."""
    spread_bits_per_second: Optional[Rate]
    """Standard deviation of the available bandwidth from train to train, which shows how much it varied. Null
    if there were too few trains."""
    sustained_bytes: Optional[int]
    """Bytes of the longer trains, one right behind the other, that passed at about this rate: only a policer
    or a token bucket whose burst is larger may have been overlooked. Null if none was sent, or the rate did
    not last."""
    trains: int
    """Trains used for the value."""
    trains_rejected: int
    """Trains rejected."""
    trains_rejected_reasons: Dict[str, int]
    """Trains rejected, by cause."""
    transport: Transport
    """What carried the probe packets."""
    warnings: List[str]
    """Circumstances that limit the validity of the value."""
    window_seconds: Optional[float]
    """The time that the value is an average over: from the start of the first to the end of the last of the
    trains that it follows from. Those that only tried it, or whether it lasts, don't count. Null if there is
    no value, or connections take several links."""
    window_start_seconds: Optional[float]
    """How long after the first packet of the method's first train that time began. Null where that is
    null."""


DscpPattern = Literal["all-kept", "all-bleached", "precedence-bleached", "precedence-alone", "some-changed", "some-dropped"]
"""What a path does to DSCPs in general."""


EcnGrade = Literal["unknown", "none", "classic", "l4s"]
"""For what kind of ECN a path is ready."""


class EcnReadiness(TypedDict):
    """Whether congestion control by ECN works on a path, in both directions."""

    grade: EcnGrade
    """For what."""
    sentence: str
    """The same in words, and where it fails."""


EcnRequest = Literal["none", "classic", "accurate", "mangled"]
"""Which ECN a SYN requests by its flags AE, CWR and ECE."""


class ErrorReport(TypedDict):
    """The failure of a measurement."""

    hint: Optional[str]
    """What to try; null if there is no general advice."""
    kind: str
    """What kind of failure, for programs: `resolve`, `connect`, `refused`, `deadline-exceeded` …"""
    message: str
    """The operation, its object and the cause."""


class FarEndMarkReport(TypedDict):
    """Packets with enough hops to reach the receiver."""

    arrived: int
    """How many arrived."""
    dscp: Dict[str, int]
    """With which DSCPs."""
    ecn: Dict[str, int]
    """With which ECN codepoints."""
    sent: int
    """How many were sent."""


class FirstMarkReport(TypedDict):
    """The first packet that was marked."""

    after_seconds: float
    """When it was sent, from the first packet on since which all waited for more than 5 ms."""
    queueing_delay_seconds: float
    """How long it waited."""


class HopLimitReport(TypedDict):
    """TTL or hop limit."""

    arrived: int
    """With which packets arrived."""
    routers: int
    """Routers on the way: by how much less that is; from the nearest of 64, 128 and 255 where the sender does
    not say. What hides in tunnels does not count."""
    sent: Optional[int]
    """With which the sender's system sends, as it says itself; null if it does not say."""


class HopReport(TypedDict):
    """A router, or several that share the work."""

    addresses: Dict[str, int]
    """Who answered, and how often."""
    answered: int
    """Those that were answered."""
    answers: Dict[str, int]
    """What was answered, by ICMP or ICMPv6, and how often."""
    dscp: Dict[str, int]
    """DSCPs of packets as they arrived there, which the answers quote; empty where they cannot be read."""
    ecn: Dict[str, int]
    """ECN codepoints, likewise."""
    flows_answered: int
    """Flows of which packets were answered."""
    hop: int
    """Its number: 1 is next to the sender."""
    round_trip_seconds: Optional[float]
    """Median of the round trips in seconds; null where none was answered."""
    sent: int
    """Packets whose TTL or hop limit ended there."""


class IdleTimeoutReport(TypedDict):
    """After which time a kind of flow is forgotten: what the far end sends then does not arrive."""

    at_most_seconds: Optional[float]
    """One that is longer, after which it was forgotten, and also after one between the two, if several were
    tried; null if it was after none."""
    flows: int
    """Flows that were tried."""
    is_sure: bool
    """Whether lost packets do not explain that as well: several flows show it."""
    longer_than_seconds: Optional[float]
    """The longest idle time after which it was still known; null if it was known after none that was
    tried."""
    lost_earlier: int
    """Flows that were forgotten though longer ones were not: by lost packets, or because a table was full."""
    resumes_up: Optional[bool]
    """Whether what this host sent on forgotten flows still arrived there as of the same flow, so that they go
    on once this end sends; null if none was forgotten, or some did."""


class IdleTimeoutsReport(TypedDict):
    """How long address translators and firewalls on the path keep state of flows that are idle."""

    failure: Optional[str]
    """Why not all has been looked at; null if it has."""
    max_idle_seconds: float
    """The longest idle time that was tried."""
    tcp: Optional[IdleTimeoutReport]
    """Of an open TCP connection (RFC 5382, REQ-5); null as above."""
    udp: Optional[IdleTimeoutReport]
    """Of UDP, after one packet each way (RFC 4787, REQ-5); null if no such flow could be opened."""
    udp_stream: Optional[IdleTimeoutReport]
    """Of UDP, after packets each way for more than two seconds; null as above."""


LastingQueueKind = Literal["marked", "not-marked", "not-sure"]
"""Whether packets are marked that have waited for long."""


class LastingQueueReport(TypedDict):
    """What the queue of the narrow link does to packets that have waited for long."""

    arrived: int
    """Packets that arrived, with a stamp of their own."""
    duration_seconds: float
    """The longest time in which all packets waited for more than 5 ms: from the first one to the last."""
    first_mark: Optional[FirstMarkReport]
    """The first packet that waited for more than that and arrived with CE; null if none did."""
    kind: LastingQueueKind
    """What that is."""
    mark: str
    """The codepoint with which packets were sent."""
    marked: int
    """Those that waited for more than 5 ms and arrived with CE."""
    marked_without_queue: int
    """Those that waited for less than 1 ms and arrived with CE: not by this queue."""
    median_queueing_delay_seconds: Optional[float]
    """Median of the queueing delays of these; null if there are none."""
    sent: int
    """Packets that were sent."""


MarkChangeReport = TypedDict(
    "MarkChangeReport",
    {
        "after_hop": int,
        "before_hop": Optional[int],
        "field": str,
        "from": str,
        "to": str,
    },
)
"""Where a mark changes."""


Treatment = Literal["kept", "bleached", "remarked", "partly-remarked", "dropped", "partly-dropped", "not-sure"]
"""What a path does to packets with a mark."""


class MarkReport(TypedDict):
    """What became of packets with a mark."""

    arrived_as: Dict[str, int]
    """Those that arrived, by the mark with which they did."""
    mark: str
    """Its name."""
    sent: int
    """Packets that were sent with it."""
    treatment: Treatment
    """What that means."""
    value: int
    """Its number: of the two bits of ECN, or the six of DSCP."""


class MssReport(TypedDict):
    """A maximum segment size (RFC 9293, 3.7.1) in bytes."""

    arrived: Optional[int]
    """As it arrived; null if that is not known. Of a SYN-ACK, the receiver's kernel says no more than what it
    uses."""
    is_clamped: Optional[bool]
    """Whether a middlebox made it smaller; null as above."""
    sent: int
    """As it was announced."""


class MtuReport(TypedDict):
    """The largest UDP packet that passes."""

    has_icmp: Optional[bool]
    """Whether an ICMP message told the sender that packets are too large, as routers have to (RFC 1191, RFC
    8201); null if none was lost, or that is not known. False is a black hole: what relies on these messages
    hangs (RFC 2923)."""
    lost_bytes: Optional[int]
    """The smallest that did not pass; null if none was lost of those that both hosts can send. Without
    `--path`, larger ones than passed up are not tried down."""
    passed_bytes: int
    """The largest IP packet that passed, in bytes."""


QueueCount = Literal["one", "several", "not-sure"]
"""How many queues a link has for codepoints."""


class QueueClassesReport(TypedDict):
    """Queues of the narrow link by DSCP and ECN codepoint."""

    classes: List[ClassQueueReport]
    """What each codepoint meets beside best effort."""
    queues: QueueCount
    """How many there are."""


QueueMarkingKind = Literal["l4s", "shallow", "classic", "none-seen", "no-queue", "not-sure"]
"""Kinds of queues, by how they mark."""


class QueueMarkingReport(TypedDict):
    """What the queue of the narrow link does to packets of each ECN codepoint while short trains fill it."""

    codepoints: List[CodepointMarkingReport]
    """What became of each codepoint; those that do not arrive as they were sent are left out."""
    kind: QueueMarkingKind
    """What kind of queue that is."""


PortProtocol = Literal["udp", "tcp"]
"""A protocol with ports."""


class TracePathReport(TypedDict):
    """Flows that met the same routers, at hops at which they can be compared."""

    addresses: List[Optional[str]]
    """Who answered them at each hop, from the first on; null where they are not compared."""
    flows: int
    """How many."""


class TraceReport(TypedDict):
    """The routers' own answers to packets whose TTL or hop limit ended there."""

    changes: List[MarkChangeReport]
    """Where the DSCP or the ECN codepoint changes, as far as routers tell."""
    dscp: str
    """DSCP of the packets when they left."""
    ecn: str
    """Their ECN codepoint."""
    far_end: Optional[FarEndMarkReport]
    """Packets with enough hops to reach the receiver; null over TCP."""
    hops: List[HopReport]
    """By the number of routers, from the sender on."""
    paths: List[TracePathReport]
    """The paths that flows take, each with a port of its own: several where a load balancer (ECMP) spreads
    them. That of most flows comes first. Flows are compared at hops that answered all of them, or showed
    several routers; of these, only flows count that were answered at each of those hops. Empty where it is
    not known."""
    paths_confidence: Optional[float]
    """The probability with which one more router that answers would have been seen at any of the hops at
    which flows are compared, if it takes as many flows as each of those that were found there: that of the
    hop where it is least. Null where there is no such hop, or paths are not known."""
    protocol: PortProtocol
    """The protocol of the packets, which went between the measurement's own hosts and to its port."""
    unknown_hops: List[int]
    """Hops that answered not all flows, or none: paths may differ there."""
    unsteady_hops: List[int]
    """Hops at which packets of one flow met several routers, so that nothing can be said of paths: they are
    spread one by one, the route changed, or a router answers from several of its addresses."""


class PathDirectionReport(TypedDict):
    """What the path does to packets of a direction."""

    dscp: Optional[List[MarkReport]]
    """What became of DSCPs (RFC 2474), without ECN; null as above."""
    dscp_pattern: Optional[DscpPattern]
    """What these have in common; null as above."""
    ecn: Optional[List[MarkReport]]
    """What became of each ECN codepoint (RFC 3168), with DSCP zero; null if that was not asked for, or could
    not be seen."""
    hop_limit: Optional[HopLimitReport]
    """TTL (IPv4) or hop limit (IPv6) of UDP packets; null if not known."""
    lasting_queue: Optional[LastingQueueReport]
    """What it does to packets that have waited for long; null if that was not asked for (`--load`), or could
    not be seen."""
    mtu: Optional[MtuReport]
    """The largest UDP packet that passes; null if that was not looked for."""
    queue_classes: Optional[QueueClassesReport]
    """Whether that link has queues of its own for some DSCPs, or for ECT(1); null if that was not asked for,
    or could not be seen."""
    queue_marking: Optional[QueueMarkingReport]
    """Which packets the queue of the narrow link marks with CE, and from which queueing delay on; null as
    above."""
    trace: Optional[TraceReport]
    """The routers on the way; null if that was not asked for, or could not be seen."""


PortOutcome = Literal["passes", "no-answer", "up-only", "refused", "other-answer", "in-use", "not-allowed", "not-opened", "not-sure", "not-tried"]
"""What becomes of packets to a port."""


class PortReport(TypedDict):
    """What is known of a port."""

    answered: int
    """Those whose answer has come back."""
    arrived: int
    """Those that the far end has seen."""
    detail: Optional[str]
    """Of a refusal: how, and by whom, as far as that is known. Of a port that the far end could not open:
    why. Else null."""
    outcome: PortOutcome
    """What that comes to."""
    port: int
    """Its number."""
    protocol: PortProtocol
    """Of which protocol."""
    sent: int
    """Packets that were sent there, or connections that were tried."""


class PortsReport(TypedDict):
    """Which of a list of ports pass, from this host to the far end, which listens there, and back."""

    failure: Optional[str]
    """Why not all have been tried; null if they have."""
    ports: List[PortReport]
    """Each port by each protocol, in rising order."""


SynProbeOutcome = Literal["kept", "removed", "not-opened"]
"""What became of something that a SYN carried."""


class SynProbeReport(TypedDict):
    """What became of a SYN that was sent for what it carried."""

    carried: str
    """`MPTCP`, `TCP Fast Open` or `ECN`."""
    outcome: SynProbeOutcome
    """What became of that."""


class SynReport(TypedDict):
    """A SYN as it arrived."""

    ds_field: int
    """The octet of DSCP and ECN as it arrived."""
    ecn_arrived: EcnRequest
    """Which ECN it requested as it arrived."""
    ecn_sent: Optional[EcnRequest]
    """Which ECN this host's SYN requested; null if that is not known."""
    hop_limit: Optional[HopLimitReport]
    """TTL or hop limit."""
    mss: MssReport
    """Its maximum segment size."""
    options_added: Optional[List[str]]
    """Options that arrived and that this host did not send; null as above."""
    options_removed: Optional[List[str]]
    """Options that this host sent and that did not arrive; null if what it sent is not known."""


class TcpPathReport(TypedDict):
    """What the handshake of the control connection shows. This host's own SYN is known from a connection of
    it to itself."""

    ce_marked_segments: List[int]
    """Segments that arrived marked with CE: of this host, of the far end."""
    ect_seen: List[Optional[bool]]
    """Whether this host's kernel saw ECN-capable packets on the connection (ECT or CE), and whether the far
    end's did; each only where ECN was negotiated."""
    has_ecn: bool
    """Whether ECN was negotiated."""
    options: List[str]
    """Options that both ends use: time stamps, SACK, window scale."""
    syn: Optional[SynReport]
    """How the SYN arrived at the far end; null if its system did not keep it."""
    syn_ack_mss: MssReport
    """The maximum segment size of the far end's SYN-ACK."""
    syn_probes: List[SynProbeReport]
    """What became of SYNs with something unusual, each on a connection of its own; empty if that was not
    asked for."""


class PathReport(TypedDict):
    """What the path does to packets. What is free is looked at always; ECN over UDP and DSCP on request."""

    down: PathDirectionReport
    """From the peer to this host."""
    ecn_readiness: Optional[EcnReadiness]
    """Whether congestion control by ECN works on this path; null if that was not asked for."""
    idle_timeouts: Optional[IdleTimeoutsReport]
    """How long flows may be idle; null if that was not asked for."""
    not_known: List[str]
    """What was not looked at, why, and what it would take."""
    ports: Optional[PortsReport]
    """Which of a list of ports pass; null if that was not asked for."""
    tcp: Optional[TcpPathReport]
    """What TCP's handshake shows; null if the far end does not know."""
    tcp_address: Optional[AddressReport]
    """The same for TCP; null if the far end does not know."""
    udp_address: Optional[AddressReport]
    """This host's address and port for UDP, here and at the far end; null if UDP was not opened."""
    up: PathDirectionReport
    """From this host to the peer."""


class Document(TypedDict):
    """The result of a measurement. Rates count IP-layer bits (RFC 5136)."""

    delay: Optional[DelayReport]
    """Delay, loss and reordering; null if not requested."""
    down: Optional[DirectionReport]
    """From the peer to this host; null if not requested."""
    error: Optional[ErrorReport]
    """Why the measurement failed as a whole; null if it did not. There is nothing else in the document
    then."""
    path: Optional[PathReport]
    """What the path does to packets; null if that is not known."""
    peer: str
    """Address and port of the far end."""
    schema: str
    """`kumade.measure/1`."""
    started: str
    """Start of the measurement, UTC (RFC 3339)."""
    up: Optional[DirectionReport]
    """From this host to the peer; null if not requested."""
