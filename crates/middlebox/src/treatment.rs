//! What a middlebox does to packets that it lets pass: changes of their headers, losses by header, and limits of length.

use crate::action::{Direction, PacketAction};
use crate::rules::PacketMatch;
use crate::table::keyed_hash;
use kumade_packet::{DsField, Dscp, Ecn, FlowKey, Headers, TcpRewrite, protocol, tcp_option};
use kumade_units::ConfigError;
use std::net::SocketAddr;

/// What happens to some of the packets that pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Treatment {
    /// Which packets.
    pub matching: TreatmentMatch,
    /// Whether it happens to all of these.
    pub chance: Chance,
    /// What happens to them.
    pub action: TreatmentAction,
}

/// The packets that are treated; without a condition, all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreatmentMatch {
    /// Only in this direction.
    pub direction: Option<Direction>,
    /// Only these protocols and ports. Ports are those that the inside sees.
    pub packet: PacketMatch,
    /// Only IPv6, or only IPv4.
    pub is_ipv6: Option<bool>,
    /// Only of this ECN codepoint.
    pub ecn: Option<Ecn>,
    /// Only of this DSCP.
    pub dscp: Option<Dscp>,
    /// Only packets of this kind.
    pub kind: Option<PacketKind>,
}

/// Kinds of packets that middleboxes treat by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// TCP segments with SYN.
    Syn,
    /// TCP segments with SYN, and one of the flags AE, CWR and ECE (RFC 3168 §6.1.1, RFC 9768).
    EcnSyn,
    /// TCP segments with SYN and an option of this kind.
    SynWithOption(u8),
    /// The ICMP errors "fragmentation needed" (RFC 1191) and "packet too big" (RFC 4443 §3.2).
    PacketTooBig,
}

/// Whether all packets that match are treated. Parts are from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Chance {
    /// All of them.
    #[default]
    Always,
    /// This part of them at random, each by itself.
    Packets(f64),
    /// All of this part of the flows at random, by addresses, protocol and ports, and none of the others.
    Flows(f64),
}

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreatmentAction {
    /// It is dropped.
    Drop,
    /// It is dropped where it is longer than this and must not be fragmented (IPv6, and IPv4 with "don't fragment"). What may
    /// be fragmented passes whole, and so does what an offloading sender has still to be divided.
    LimitMtu {
        /// Length of the longest packet that passes, in bytes.
        mtu: u16,
        /// Whether the sender is told by ICMP; else this is a black hole (RFC 2923 §2.1).
        replies: bool,
    },
    /// Its ECN field becomes this. [`Ecn::NotEct`] bleaches it.
    SetEcn(Ecn),
    /// Its DSCP becomes this.
    SetDscp(Dscp),
    /// Of its DSCP, only the bits of this mask remain: 0b111000 the class selector (RFC 2474 §4.2.2); 0b000111 what a router
    /// leaves that clears the precedence of the former Type of Service (RFC 791).
    MaskDscp(u8),
    /// The flags AE, CWR and ECE of a SYN or SYN-ACK are cleared, so that the connection is without ECN.
    ClearEcnFlags,
    /// The maximum segment size that a SYN or SYN-ACK announces is lowered to so many bytes.
    ClampMss(u16),
    /// TCP options are replaced by options without operation.
    RemoveOptions(TcpOptionMatch),
    /// The end that sends in the direction of the match has other sequence numbers on the other side: each connection's are
    /// shifted by a number of its own. Its acknowledgments that come back follow. Applies to all connections: a condition on
    /// anything but direction and IP version is invalid.
    RandomizeSequence,
}

/// Which TCP options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOptionMatch {
    /// Those of this kind; see [`kumade_packet::tcp_option`].
    Kind(u8),
    /// All but those of RFC 9293, RFC 2018 and RFC 7323, which is what old firewalls know: maximum segment size, window scale, SACK,
    /// timestamps.
    Unknown,
}

/// The treatments of a middlebox, in order.
#[derive(Debug)]
pub(crate) struct Treatments {
    list: Vec<Treatment>,
    seed: u128,
    /// Packets for which chance has decided so far.
    draws: u64,
}

/// A packet on its way: with the headers that the inside sees.
#[derive(Clone, Copy)]
pub(crate) struct PassingPacket<'a> {
    pub(crate) direction: Direction,
    pub(crate) inside: &'a Headers,
    pub(crate) is_offloaded: bool,
}

impl Treatment {
    /// Whether a middlebox can do this.
    ///
    /// # Errors
    /// A value is out of range, or a condition makes no sense; the error says what to give instead.
    pub fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("treatment");
        if let Chance::Packets(part) | Chance::Flows(part) = self.chance
            && !(0.0..=1.0).contains(&part)
        {
            return Err(error("probability", part.to_string(), "which is out of range", "give a part from 0 to 1"));
        }
        match self.action {
            TreatmentAction::MaskDscp(mask) if mask > Dscp::MAX => {
                Err(error("DSCP mask", mask.to_string(), "which has more than six bits", "give 0 to 63"))
            }
            TreatmentAction::RandomizeSequence => {
                let TreatmentMatch { direction, is_ipv6, .. } = self.matching;
                let whole = TreatmentMatch { direction, is_ipv6, ..TreatmentMatch::default() };
                if self.matching == whole && self.chance == Chance::Always {
                    return Ok(());
                }
                let problem = "although all segments of a connection must be changed alike";
                Err(error(
                    "match",
                    "a part of the packets".into(),
                    problem,
                    "give a direction or an IP version at most",
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Treatments {
    pub(crate) fn new(list: Vec<Treatment>, seed: u128) -> Result<Self, ConfigError> {
        list.iter().try_for_each(Treatment::check)?;
        Ok(Treatments { list, seed, draws: 0 })
    }

    /// What becomes of a packet that does not pass, which is not changed.
    pub(crate) fn refuse(&mut self, passing: PassingPacket<'_>, packet: &[u8]) -> Option<PacketAction> {
        for index in 0..self.list.len() {
            let refusal = match self.list[index].action {
                TreatmentAction::Drop => PacketAction::Drop,
                TreatmentAction::LimitMtu { mtu, replies } => {
                    if passing.is_offloaded || !exceeds_mtu(packet, passing.inside, mtu) {
                        continue;
                    }
                    let reply = replies.then(|| kumade_packet::packet_too_big(packet, mtu.into()));
                    reply.flatten().map_or(PacketAction::Drop, PacketAction::Reply)
                }
                _ => continue,
            };
            if self.applies(index, passing, packet) {
                return Some(refusal);
            }
        }
        None
    }

    /// Changes a packet that passes.
    pub(crate) fn change(&mut self, passing: PassingPacket<'_>, packet: &mut [u8]) {
        for index in 0..self.list.len() {
            let Treatment { action, matching, .. } = self.list[index];
            if action == TreatmentAction::RandomizeSequence {
                if matching.has_version(passing.inside) {
                    self.shift_sequences(index, matching.direction, passing, packet);
                }
            } else if self.applies(index, passing, packet) {
                change_packet(action, passing, packet);
            }
        }
    }

    fn applies(&mut self, index: usize, passing: PassingPacket<'_>, packet: &[u8]) -> bool {
        let Treatment { matching, chance, .. } = self.list[index];
        if !matching.matches(passing, packet) {
            return false;
        }
        let (part, hash) = match chance {
            Chance::Always => return true,
            Chance::Packets(part) => {
                self.draws += 1;
                (part, keyed_hash(self.seed, &self.draws))
            }
            Chance::Flows(part) => (part, keyed_hash(self.seed, &(index, FlowKey::from_headers(passing.inside)))),
        };
        // From 0 up to, but not including, 1.
        ((hash >> 11) as f64) < part * (1u64 << 53) as f64
    }

    /// Shifts the numbers of the end that sends in `direction`, or of both, as they are in this packet.
    fn shift_sequences(
        &self,
        index: usize,
        direction: Option<Direction>,
        passing: PassingPacket<'_>,
        packet: &mut [u8],
    ) {
        let FlowKey { source, destination, .. } = FlowKey::from_headers(passing.inside);
        let Some(mut tcp) = TcpRewrite::new(packet, passing.inside, passing.is_offloaded) else { return };
        let shift = |sender: SocketAddr, receiver: SocketAddr| keyed_hash(self.seed, &(index, sender, receiver)) as u32;
        let is_shifted = |sender: Direction| direction.is_none_or(|direction| direction == sender);
        if is_shifted(passing.direction) {
            tcp.shift_sequence(shift(source, destination));
        }
        if is_shifted(passing.direction.reversed()) {
            tcp.shift_acknowledgment(shift(destination, source).wrapping_neg());
        }
    }
}

impl TreatmentMatch {
    fn matches(&self, passing: PassingPacket<'_>, packet: &[u8]) -> bool {
        let field = DsField::read(packet);
        self.direction.is_none_or(|direction| direction == passing.direction)
            && self.has_version(passing.inside)
            && self.ecn.is_none_or(|ecn| ecn == field.ecn())
            && self.dscp.is_none_or(|dscp| dscp == field.dscp())
            && self.packet.matches(passing.inside)
            && self.kind.is_none_or(|kind| kind.matches(passing.inside, packet))
    }

    fn has_version(&self, headers: &Headers) -> bool {
        self.is_ipv6.is_none_or(|is_ipv6| is_ipv6 == headers.source.is_ipv6())
    }
}

impl PacketKind {
    fn matches(self, headers: &Headers, packet: &[u8]) -> bool {
        let is_syn = headers.tcp().is_some_and(|tcp| tcp.syn);
        match self {
            PacketKind::Syn => is_syn,
            PacketKind::EcnSyn => is_syn && kumade_packet::has_ecn_flags(packet, headers),
            PacketKind::SynWithOption(kind) => is_syn && kumade_packet::has_tcp_option(packet, headers, kind),
            PacketKind::PacketTooBig => headers.icmp().is_some_and(|icmp| match headers.protocol {
                protocol::ICMP => (icmp.kind, icmp.code) == (3, 4),
                _ => icmp.kind == 2,
            }),
        }
    }
}

impl TcpOptionMatch {
    fn matches(self, kind: u8) -> bool {
        use tcp_option::{MAXIMUM_SEGMENT_SIZE, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE};
        match self {
            TcpOptionMatch::Kind(number) => number == kind,
            TcpOptionMatch::Unknown => {
                !matches!(kind, MAXIMUM_SEGMENT_SIZE | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS)
            }
        }
    }
}

/// Whether a packet that must not be fragmented is longer than this.
fn exceeds_mtu(packet: &[u8], headers: &Headers, mtu: u16) -> bool {
    const DONT_FRAGMENT: u8 = 0x40;
    let may_be_fragmented = headers.source.is_ipv4() && packet.get(6).is_some_and(|flags| flags & DONT_FRAGMENT == 0);
    headers.total_len > mtu.into() && !may_be_fragmented
}

fn change_packet(action: TreatmentAction, passing: PassingPacket<'_>, packet: &mut [u8]) {
    let field = DsField::read(packet);
    let changed = match action {
        TreatmentAction::SetEcn(ecn) => DsField::new(field.dscp(), ecn),
        TreatmentAction::SetDscp(dscp) => DsField::new(dscp, field.ecn()),
        TreatmentAction::MaskDscp(mask) => {
            let dscp = Dscp::new(field.dscp().number() & mask).unwrap_or_default();
            DsField::new(dscp, field.ecn())
        }
        _ => return change_segment(action, passing, packet),
    };
    changed.write(packet);
}

fn change_segment(action: TreatmentAction, passing: PassingPacket<'_>, packet: &mut [u8]) {
    let Some(mut tcp) = TcpRewrite::new(packet, passing.inside, passing.is_offloaded) else { return };
    match action {
        TreatmentAction::ClearEcnFlags if tcp.is_syn() => tcp.clear_ecn_flags(),
        TreatmentAction::ClampMss(bytes) if tcp.is_syn() => drop(tcp.clamp_mss(bytes)),
        TreatmentAction::RemoveOptions(which) => tcp.remove_options(|kind| which.matches(kind)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
