//! What a middlebox does to packets that pass, as scenario files say it.

use crate::accuracy::Protocol;
use crate::values::ratio;
use kumade_measurement::report::EcnCodepoint;
use kumade_middlebox::{Chance, PacketKind, PacketMatch, TcpOptionMatch, Treatment, TreatmentAction, TreatmentMatch};
use kumade_packet::{Dscp, Ecn, protocol, tcp_option};
use kumade_units::Direction;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// What happens to some of the packets that pass. Without a condition, it happens to all.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreatmentSettings {
    /// Only in this direction.
    pub direction: Option<Direction>,
    /// Only this protocol.
    pub protocol: Option<Protocol>,
    /// Only packets to this port.
    pub port: Option<u16>,
    /// Only packets of this ECN codepoint.
    pub ecn: Option<EcnCodepoint>,
    /// Only packets of this DSCP, by number or name.
    #[serde(default, deserialize_with = "optional_dscp")]
    pub dscp: Option<Dscp>,
    /// Only packets of this kind.
    pub packets: Option<PacketKindSettings>,
    /// Only this part of them at random, each by itself.
    #[serde(default, deserialize_with = "optional_ratio")]
    pub of_packets: Option<f64>,
    /// Only this part of the flows at random, all of a flow.
    #[serde(default, deserialize_with = "optional_ratio")]
    pub of_flows: Option<f64>,
    /// What happens to them.
    pub action: ActionSettings,
}

/// Kinds of packets that are treated by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacketKindSettings {
    /// TCP segments with SYN.
    Syn,
    /// TCP segments with SYN that ask for ECN, or agree to it.
    EcnSyn,
    /// TCP segments with SYN and an option of MPTCP.
    MultipathSyn,
    /// TCP segments with SYN and the option of TCP Fast Open.
    FastOpenSyn,
    /// ICMP's "fragmentation needed" and "packet too big".
    PacketTooBig,
}

/// What happens to a packet; see [`TreatmentAction`].
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionSettings {
    /// It is dropped.
    Drop,
    /// It is dropped if it is longer than this, and the sender is told by ICMP; in bytes.
    Mtu(u16),
    /// It is dropped without a word if it is longer than this; in bytes.
    BlackHole(u16),
    /// Its ECN field becomes this.
    SetEcn(EcnCodepoint),
    /// Its DSCP becomes this.
    #[serde(deserialize_with = "dscp")]
    SetDscp(Dscp),
    /// These bits of its DSCP remain, as a number: 56 the class selector, 7 all but the former precedence.
    MaskDscp(u8),
    /// A SYN or SYN-ACK loses the flags of ECN.
    ClearEcnFlags,
    /// The maximum segment size that a SYN or SYN-ACK announces is lowered to this many bytes.
    ClampMss(u16),
    /// TCP options of this kind become options without operation.
    RemoveOptions(OptionKind),
    /// Sequence numbers of the end that sends in this direction are shifted, by connection.
    RandomizeSequence,
}

/// Kinds of TCP options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "RFC 9293, 7323, 2018, 8684 and 7413 name them")]
pub enum OptionKind {
    MaximumSegmentSize,
    WindowScale,
    SackPermitted,
    Timestamps,
    Multipath,
    FastOpen,
    /// All but the first four and SACK.
    Unknown,
}

impl TreatmentSettings {
    /// For the middlebox before the host that measures: up is from its inside to the outside.
    ///
    /// # Errors
    /// What contradicts itself or is out of range.
    pub fn treatment(&self) -> Result<Treatment, String> {
        let chance = match (self.of_packets, self.of_flows) {
            (None, None) => Chance::Always,
            (Some(part), None) => Chance::Packets(part),
            (None, Some(part)) => Chance::Flows(part),
            (Some(_), Some(_)) => return Err("a treatment has `of_packets` or `of_flows`; leave one out".into()),
        };
        let number = |protocol| match protocol {
            Protocol::Udp => protocol::UDP,
            Protocol::Tcp => protocol::TCP,
        };
        let matching = TreatmentMatch {
            direction: self.direction.map(middlebox_direction),
            packet: PacketMatch { protocol: self.protocol.map(number), destination_port: self.port },
            is_ipv6: None,
            ecn: self.ecn.map(Ecn::from),
            dscp: self.dscp,
            kind: self.packets.map(PacketKind::from),
        };
        let treatment = Treatment { matching, chance, action: self.action.into() };
        treatment.check().map_err(|error| error.to_string())?;
        Ok(treatment)
    }
}

/// The direction of the middlebox before the host that measures.
pub(super) fn middlebox_direction(direction: Direction) -> kumade_middlebox::Direction {
    match direction {
        Direction::Up => kumade_middlebox::Direction::Outbound,
        Direction::Down => kumade_middlebox::Direction::Inbound,
    }
}

impl From<PacketKindSettings> for PacketKind {
    fn from(kind: PacketKindSettings) -> Self {
        match kind {
            PacketKindSettings::Syn => PacketKind::Syn,
            PacketKindSettings::EcnSyn => PacketKind::EcnSyn,
            PacketKindSettings::MultipathSyn => PacketKind::SynWithOption(tcp_option::MULTIPATH),
            PacketKindSettings::FastOpenSyn => PacketKind::SynWithOption(tcp_option::FAST_OPEN),
            PacketKindSettings::PacketTooBig => PacketKind::PacketTooBig,
        }
    }
}

impl From<ActionSettings> for TreatmentAction {
    fn from(action: ActionSettings) -> Self {
        match action {
            ActionSettings::Drop => TreatmentAction::Drop,
            ActionSettings::Mtu(mtu) => TreatmentAction::LimitMtu { mtu, replies: true },
            ActionSettings::BlackHole(mtu) => TreatmentAction::LimitMtu { mtu, replies: false },
            ActionSettings::SetEcn(codepoint) => TreatmentAction::SetEcn(codepoint.into()),
            ActionSettings::SetDscp(dscp) => TreatmentAction::SetDscp(dscp),
            ActionSettings::MaskDscp(mask) => TreatmentAction::MaskDscp(mask),
            ActionSettings::ClearEcnFlags => TreatmentAction::ClearEcnFlags,
            ActionSettings::ClampMss(bytes) => TreatmentAction::ClampMss(bytes),
            ActionSettings::RemoveOptions(kind) => TreatmentAction::RemoveOptions(kind.into()),
            ActionSettings::RandomizeSequence => TreatmentAction::RandomizeSequence,
        }
    }
}

impl From<OptionKind> for TcpOptionMatch {
    fn from(kind: OptionKind) -> Self {
        TcpOptionMatch::Kind(match kind {
            OptionKind::MaximumSegmentSize => tcp_option::MAXIMUM_SEGMENT_SIZE,
            OptionKind::WindowScale => tcp_option::WINDOW_SCALE,
            OptionKind::SackPermitted => tcp_option::SACK_PERMITTED,
            OptionKind::Timestamps => tcp_option::TIMESTAMPS,
            OptionKind::Multipath => tcp_option::MULTIPATH,
            OptionKind::FastOpen => tcp_option::FAST_OPEN,
            OptionKind::Unknown => return TcpOptionMatch::Unknown,
        })
    }
}

fn dscp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Dscp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn optional_dscp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Dscp>, D::Error> {
    dscp(deserializer).map(Some)
}

fn optional_ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    ratio(deserializer).map(Some)
}
