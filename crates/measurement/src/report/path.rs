//! What the path does to packets: the section `path` of a report.

use super::idle_timeouts::IdleTimeoutsReport;
use super::ports::PortsReport;
use super::queue_classes::QueueClassesReport;
use super::queue_marking::{LastingQueueReport, QueueMarkingReport};
use super::trace::TraceReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// What the path does to packets. What is free is looked at always; ECN over UDP and DSCP on request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathReport {
    /// Whether congestion control by ECN works on this path; null if that was not asked for.
    pub ecn_readiness: Option<EcnReadiness>,
    /// From this host to the peer.
    pub up: PathDirectionReport,
    /// From the peer to this host.
    pub down: PathDirectionReport,
    /// What TCP's handshake shows; null if the far end does not know.
    pub tcp: Option<TcpPathReport>,
    /// This host's address and port for UDP, here and at the far end; null if UDP was not opened.
    pub udp_address: Option<AddressReport>,
    /// The same for TCP; null if the far end does not know.
    pub tcp_address: Option<AddressReport>,
    /// Which of a list of ports pass; null if that was not asked for.
    pub ports: Option<PortsReport>,
    /// How long flows may be idle; null if that was not asked for.
    pub idle_timeouts: Option<IdleTimeoutsReport>,
    /// What was not looked at, why, and what it would take.
    pub not_known: Vec<String>,
}

/// What the path does to packets of a direction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PathDirectionReport {
    /// TTL (IPv4) or hop limit (IPv6) of UDP packets; null if not known.
    pub hop_limit: Option<HopLimitReport>,
    /// The largest UDP packet that passes; null if that was not looked for.
    pub mtu: Option<MtuReport>,
    /// What became of each ECN codepoint (RFC 3168), with DSCP zero; null if that was not asked for, or could not be seen.
    pub ecn: Option<Vec<MarkReport>>,
    /// What became of DSCPs (RFC 2474), without ECN; null as above.
    pub dscp: Option<Vec<MarkReport>>,
    /// What these have in common; null as above.
    pub dscp_pattern: Option<DscpPattern>,
    /// Which packets the queue of the narrow link marks with CE, and from which queueing delay on; null as above.
    pub queue_marking: Option<QueueMarkingReport>,
    /// What it does to packets that have waited for long; null if that was not asked for (`--load`), or could not be seen.
    pub lasting_queue: Option<LastingQueueReport>,
    /// Whether that link has queues of its own for some DSCPs, or for ECT(1); null if that was not asked for, or could not be seen.
    pub queue_classes: Option<QueueClassesReport>,
    /// The routers on the way; null if that was not asked for, or could not be seen.
    pub trace: Option<TraceReport>,
}

/// TTL or hop limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HopLimitReport {
    /// With which the sender's system sends, as it says itself; null if it does not say.
    pub sent: Option<u8>,
    /// With which packets arrived.
    pub arrived: u8,
    /// Routers on the way: by how much less that is; from the nearest of 64, 128 and 255 where the sender does not say. What hides in tunnels
    /// does not count.
    pub routers: u8,
}

/// The largest UDP packet that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MtuReport {
    /// The largest IP packet that passed, in bytes.
    pub passed_bytes: u32,
    /// The smallest that did not pass; null if none was lost of those that both hosts can send. Without `--path`, larger ones than passed up are
    /// not tried down.
    pub lost_bytes: Option<u32>,
    /// Whether an ICMP message told the sender that packets are too large, as routers have to (RFC 1191, RFC 8201); null if none was lost, or
    /// that is not known. False is a black hole: what relies on these messages hangs (RFC 2923).
    pub has_icmp: Option<bool>,
}

/// What became of packets with a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkReport {
    /// Its name.
    pub mark: String,
    /// Its number: of the two bits of ECN, or the six of DSCP.
    pub value: u8,
    /// Packets that were sent with it.
    pub sent: u32,
    /// Those that arrived, by the mark with which they did.
    pub arrived_as: BTreeMap<String, u32>,
    /// What that means.
    pub treatment: Treatment,
}

/// What a path does to packets with a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// All that arrived had it, and no more were lost than of others.
    Kept,
    /// All that arrived had none: zero (RFC 9435).
    Bleached,
    /// All that arrived had another one.
    Remarked,
    /// Some had another one. If that is CE, a queue on the path may have marked them, as it is to.
    PartlyRemarked,
    /// None arrived, which chance does not explain: of packets without marks that were sent meanwhile, enough did.
    Dropped,
    /// More were lost than chance explains.
    PartlyDropped,
    /// None arrived, or they arrived where the system does not say with which, and chance may have had it so.
    NotSure,
}

/// What a path does to DSCPs in general.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DscpPattern {
    /// Each arrived as it was sent.
    AllKept,
    /// Each arrived as zero.
    AllBleached,
    /// The first three bits, once the precedence of RFC 791, arrived as zero (RFC 9435).
    PrecedenceBleached,
    /// All but the first three bits arrived as zero.
    PrecedenceAlone,
    /// Some were changed.
    SomeChanged,
    /// Packets with some were dropped.
    SomeDropped,
}

/// Whether congestion control by ECN works on a path, in both directions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EcnReadiness {
    /// For what.
    pub grade: EcnGrade,
    /// The same in words, and where it fails.
    pub sentence: String,
}

/// For what kind of ECN a path is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EcnGrade {
    /// Too little is known.
    Unknown,
    /// For none.
    None,
    /// For classic ECN (RFC 3168).
    Classic,
    /// For L4S (RFC 9330), and for classic ECN.
    L4s,
}

/// The address and port of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddressReport {
    /// Here.
    #[schemars(with = "String")]
    pub local: SocketAddr,
    /// As the far end sees them.
    #[schemars(with = "String")]
    pub seen: SocketAddr,
    /// Whether the address was translated on the way (NAT).
    pub is_translated: bool,
    /// Whether the port is the same (port preservation, RFC 4787, 4.2.1).
    pub is_port_preserved: bool,
    /// Whether the far end has another address or port than this host has connected to, so that its end is behind an address translator or a
    /// forwarder; null if that is not known.
    pub is_far_end_translated: Option<bool>,
    /// How the address translator maps one port of this host towards several ports and addresses (RFC 4787, 4.1; RFC 5382, 4.1); null if the
    /// address is not translated, or that was not asked for, or is not known. Where the port is preserved, one that maps each flow by itself,
    /// as Linux does, looks endpoint-independent.
    pub mapping: Option<NatMapping>,
    /// Which packets are let in that nobody inside has asked for (RFC 4787, 5), by an address translator or a firewall; null if that was not
    /// asked for, or is not known, and for TCP.
    pub filtering: Option<NatFiltering>,
}

/// How an address translator maps an address and port of this host (RFC 4787, 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NatMapping {
    /// The same for all destinations.
    EndpointIndependent,
    /// The same for all ports of a destination's address, and another one for another address.
    AddressDependent,
    /// Another one for each port of a destination.
    AddressAndPortDependent,
    /// The same for two ports of one address; whether for other addresses as well is not known.
    NotAddressAndPortDependent,
}

/// Which packets from outside are let in to a port of this host from which packets have been sent (RFC 4787, 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NatFiltering {
    /// From everywhere.
    EndpointIndependent,
    /// From all ports of addresses to which packets have been sent.
    AddressDependent,
    /// From addresses and ports to which packets have been sent.
    AddressAndPortDependent,
    /// From another port of an address to which packets have been sent; whether from other addresses as well is not known.
    NotAddressAndPortDependent,
}

/// What the handshake of the control connection shows. This host's own SYN is known from a connection of it to itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpPathReport {
    /// How the SYN arrived at the far end; null if its system did not keep it.
    pub syn: Option<SynReport>,
    /// Whether ECN was negotiated.
    pub has_ecn: bool,
    /// Whether this host's kernel saw ECN-capable packets on the connection (ECT or CE), and whether the far end's did; each only where ECN was
    /// negotiated.
    pub ect_seen: [Option<bool>; 2],
    /// Segments that arrived marked with CE: of this host, of the far end.
    pub ce_marked_segments: [u32; 2],
    /// The maximum segment size of the far end's SYN-ACK.
    pub syn_ack_mss: MssReport,
    /// Options that both ends use: time stamps, SACK, window scale.
    pub options: Vec<String>,
    /// What became of SYNs with something unusual, each on a connection of its own; empty if that was not asked for.
    pub syn_probes: Vec<SynProbeReport>,
}

/// What became of a SYN that was sent for what it carried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SynProbeReport {
    /// `MPTCP`, `TCP Fast Open` or `ECN`.
    pub carried: String,
    /// What became of that.
    pub outcome: SynProbeOutcome,
}

/// What became of something that a SYN carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SynProbeOutcome {
    /// It arrived.
    Kept,
    /// The SYN arrived without it.
    Removed,
    /// The connection did not open in time: the SYN or its answer was dropped, once at least.
    NotOpened,
}

/// A maximum segment size (RFC 9293, 3.7.1) in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MssReport {
    /// As it was announced.
    pub sent: u32,
    /// As it arrived; null if that is not known. Of a SYN-ACK, the receiver's kernel says no more than what it uses.
    pub arrived: Option<u32>,
    /// Whether a middlebox made it smaller; null as above.
    pub is_clamped: Option<bool>,
}

/// A SYN as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SynReport {
    /// Which ECN this host's SYN requested; null if that is not known.
    pub ecn_sent: Option<EcnRequest>,
    /// Which ECN it requested as it arrived.
    pub ecn_arrived: EcnRequest,
    /// Its maximum segment size.
    pub mss: MssReport,
    /// Options that this host sent and that did not arrive; null if what it sent is not known.
    pub options_removed: Option<Vec<String>>,
    /// Options that arrived and that this host did not send; null as above.
    pub options_added: Option<Vec<String>>,
    /// TTL or hop limit.
    pub hop_limit: Option<HopLimitReport>,
    /// The octet of DSCP and ECN as it arrived.
    pub ds_field: u8,
}

/// Which ECN a SYN requests by its flags AE, CWR and ECE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EcnRequest {
    /// None of them is set.
    None,
    /// CWR and ECE (RFC 3168).
    Classic,
    /// All three (AccECN, RFC 9768).
    Accurate,
    /// Another combination, which no host sends in a SYN.
    Mangled,
}

impl Treatment {
    /// Whether the mark is another one afterwards.
    pub fn is_change(self) -> bool {
        matches!(self, Treatment::Bleached | Treatment::Remarked | Treatment::PartlyRemarked)
    }

    /// Whether packets are lost for it.
    pub fn is_loss(self) -> bool {
        matches!(self, Treatment::Dropped | Treatment::PartlyDropped)
    }
}

impl SynProbeReport {
    /// What it calls a request for ECN.
    pub(crate) const ECN: &'static str = "ECN";
}

impl MarkReport {
    /// Packets that arrived, whatever their mark.
    pub fn arrived(&self) -> u32 {
        self.arrived_as.values().sum()
    }

    /// Packets that arrived with their mark.
    pub fn kept(&self) -> u32 {
        self.arrived_as.get(&self.mark).copied().unwrap_or(0)
    }
}

impl fmt::Display for MarkReport {
    /// `ECT(1): dropped (0 of 12 arrived)`, `EF: remarked to AF11 (4 of 4)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MarkReport { mark, sent, .. } = self;
        let (arrived, kept) = (self.arrived(), self.kept());
        let others = self.arrived_as.iter().filter(|(name, _)| *name != mark);
        let others: Vec<_> = others.map(|(name, count)| format!("{name} ({count} of {sent})")).collect();
        let others = others.join(", ");
        match self.treatment {
            Treatment::Kept => write!(f, "{mark}: kept ({kept} of {sent})"),
            Treatment::Bleached => write!(f, "{mark}: bleached to {others}"),
            Treatment::Remarked => write!(f, "{mark}: remarked to {others}"),
            Treatment::PartlyRemarked => write!(f, "{mark}: kept ({kept} of {sent}), and remarked to {others}"),
            Treatment::Dropped => write!(f, "{mark}: dropped (0 of {sent} arrived)"),
            Treatment::PartlyDropped => {
                write!(f, "{mark}: {arrived} of {sent} arrived, fewer than of packets without marks")
            }
            Treatment::NotSure => write!(f, "{mark}: not sure ({arrived} of {sent} arrived)"),
        }
    }
}

impl fmt::Display for SynProbeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SynProbeOutcome::Kept => "kept",
            SynProbeOutcome::Removed => "removed",
            SynProbeOutcome::NotOpened => "connection not opened",
        })
    }
}

impl fmt::Display for NatMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NatMapping::EndpointIndependent => "endpoint-independent",
            NatMapping::AddressDependent => "address-dependent",
            NatMapping::AddressAndPortDependent => "address-and-port-dependent",
            NatMapping::NotAddressAndPortDependent => "not address-and-port-dependent",
        })
    }
}

impl fmt::Display for NatFiltering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NatFiltering::EndpointIndependent => "endpoint-independent",
            NatFiltering::AddressDependent => "address-dependent",
            NatFiltering::AddressAndPortDependent => "address-and-port-dependent",
            NatFiltering::NotAddressAndPortDependent => "not address-and-port-dependent",
        })
    }
}

impl fmt::Display for DscpPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DscpPattern::AllKept => "all kept",
            DscpPattern::AllBleached => "all bleached",
            DscpPattern::PrecedenceBleached => "the first three bits are bleached",
            DscpPattern::PrecedenceAlone => "all but the first three bits are bleached",
            DscpPattern::SomeChanged => "some are changed",
            DscpPattern::SomeDropped => "packets with some are dropped",
        })
    }
}
