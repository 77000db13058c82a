use crate::counters::DropCause;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kumade_packet::{Headers, PacketEnd};
use kumade_units::ConfigError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Stateless translation of the addresses of one prefix to those of another of the same length, one to one: a network
/// renumbered for its provider (RFC 3022 §2.1, RFC 6296), or addresses of one provider exchanged for those of another.
///
/// Ports do not change. For IPv6 the translation is checksum-neutral (RFC 6296 §2.6) for prefixes of up to 112 bits, so
/// that all transport protocols stay valid, encrypted ones included; otherwise the checksums of TCP, UDP, UDP-Lite, DCCP
/// and ICMPv6 are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixPair {
    /// Whose addresses these are.
    pub side: PrefixSide,
    /// The addresses as the inside sees them.
    pub internal: IpNet,
    /// The addresses as the outside sees them.
    pub external: IpNet,
}

/// The side on which hosts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixSide {
    /// Sources of outbound and destinations of inbound packets.
    Inside,
    /// Destinations of outbound and sources of inbound packets (twice NAT, RFC 2663 §4.3).
    Outside,
}

/// The prefix pairs of a middlebox.
#[derive(Debug, Clone)]
pub(crate) struct PrefixTable {
    pairs: Vec<AdjustedPair>,
}

#[derive(Debug, Clone)]
struct AdjustedPair {
    side: PrefixSide,
    internal: IpNet,
    external: IpNet,
    /// For IPv6, what is added to one word on the way from internal to external, in ones' complement arithmetic.
    adjustment: u16,
}

/// Linear search remains cheap up to this number of pairs.
const MAX_PREFIX_PAIRS: usize = 64;

impl PrefixTable {
    pub(crate) fn new(pairs: &[PrefixPair]) -> Result<Self, ConfigError> {
        if pairs.len() > MAX_PREFIX_PAIRS {
            let remedy = "give at most 64, or join neighbouring prefixes";
            return Err(ConfigError::for_part("prefix translation")(
                "pairs",
                pairs.len().to_string(),
                "too many",
                remedy,
            ));
        }
        for (at, pair) in pairs.iter().enumerate() {
            check_pair(pair, &pairs[..at])?;
        }
        let adjustment = |pair: &PrefixPair| match (pair.internal, pair.external) {
            (IpNet::V6(internal), IpNet::V6(external)) => {
                ones_complement_subtract(sum_prefix_words(internal), sum_prefix_words(external))
            }
            _ => 0,
        };
        let pair = |pair: &PrefixPair| AdjustedPair {
            side: pair.side,
            internal: pair.internal.trunc(),
            external: pair.external.trunc(),
            adjustment: adjustment(pair),
        };
        Ok(PrefixTable { pairs: pairs.iter().map(pair).collect() })
    }

    /// Gives a packet the addresses that the outside sees; `inside` is the end at which the inside host is. Returns
    /// whether that host's address was translated.
    pub(crate) fn translate_to_external(&self, headers: &mut Headers, inside: PacketEnd) -> Result<bool, DropCause> {
        self.translate_addresses(headers, inside, |pair, address| pair.external_address(address))
    }

    /// Gives a packet the addresses that the inside sees; otherwise as [`PrefixTable::translate_to_external`].
    pub(crate) fn translate_to_internal(&self, headers: &mut Headers, inside: PacketEnd) -> Result<bool, DropCause> {
        self.translate_addresses(headers, inside, |pair, address| pair.internal_address(address))
    }

    /// Whether an external address stands for an inside host.
    pub(crate) fn is_external(&self, address: IpAddr) -> bool {
        self.pairs.iter().any(|pair| pair.side == PrefixSide::Inside && pair.external.contains(&address))
    }

    fn translate_addresses(
        &self,
        headers: &mut Headers,
        inside: PacketEnd,
        of: impl Fn(&AdjustedPair, IpAddr) -> Option<Result<IpAddr, DropCause>>,
    ) -> Result<bool, DropCause> {
        let outside = if inside == PacketEnd::Source { PacketEnd::Destination } else { PacketEnd::Source };
        let mut is_inside_translated = false;
        for (hosts, end) in [(PrefixSide::Inside, inside), (PrefixSide::Outside, outside)] {
            let mut pairs = self.pairs.iter().filter(|pair| pair.side == hosts);
            if let Some(address) = pairs.find_map(|pair| of(pair, headers.address(end))) {
                headers.set_address(end, address?);
                is_inside_translated |= end == inside;
            }
        }
        Ok(is_inside_translated)
    }
}

impl AdjustedPair {
    /// `None` for addresses of other prefixes.
    fn external_address(&self, address: IpAddr) -> Option<Result<IpAddr, DropCause>> {
        replace_prefix(address, self.internal, self.external, self.adjustment)
    }

    fn internal_address(&self, address: IpAddr) -> Option<Result<IpAddr, DropCause>> {
        replace_prefix(address, self.external, self.internal, !self.adjustment)
    }
}

fn replace_prefix(address: IpAddr, from: IpNet, to: IpNet, adjustment: u16) -> Option<Result<IpAddr, DropCause>> {
    if !from.contains(&address) {
        return None;
    }
    match (address, to) {
        (IpAddr::V4(address), IpNet::V4(to)) => Some(Ok(replace_prefix_v4(address, to).into())),
        (IpAddr::V6(address), IpNet::V6(to)) => Some(replace_prefix_v6(address, to, adjustment).map(IpAddr::from)),
        _ => None,
    }
}

fn replace_prefix_v4(address: Ipv4Addr, to: Ipv4Net) -> Ipv4Addr {
    Ipv4Addr::from_bits(to.network().to_bits() | address.to_bits() & to.hostmask().to_bits())
}

/// RFC 6296 §3.2: the prefix bits are overwritten, then the adjustment is added to one 16-bit word, where 0xFFFF becomes
/// 0x0000. §3.4: for prefixes of up to 48 bits that is the subnet word; §3.5: for longer ones the first word of the
/// interface identifier that is not 0xFFFF.
fn replace_prefix_v6(address: Ipv6Addr, to: Ipv6Net, adjustment: u16) -> Result<Ipv6Addr, DropCause> {
    let mut words =
        Ipv6Addr::from_bits(to.network().to_bits() | address.to_bits() & to.hostmask().to_bits()).segments();
    let first = match usize::from(to.prefix_len()) {
        ..=48 => 3,
        length => length.div_ceil(16).max(4),
    };
    // Not even one whole word is left: then it is not neutral, and the transport's checksum is updated.
    let Some(candidates) = words.get_mut(first..).filter(|rest| !rest.is_empty()) else { return Ok(words.into()) };
    let candidates = if first == 3 { &mut candidates[..1] } else { candidates };
    let word = candidates.iter_mut().find(|word| **word != u16::MAX).ok_or(DropCause::Untranslatable)?;
    *word = match ones_complement_add(*word, adjustment) {
        u16::MAX => 0,
        sum => sum,
    };
    Ok(words.into())
}

/// Addition in ones' complement arithmetic.
fn ones_complement_add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

fn ones_complement_subtract(a: u16, b: u16) -> u16 {
    ones_complement_add(a, !b)
}

fn sum_prefix_words(prefix: Ipv6Net) -> u16 {
    prefix.network().segments().into_iter().fold(0, ones_complement_add)
}

fn check_pair(pair: &PrefixPair, earlier: &[PrefixPair]) -> Result<(), ConfigError> {
    let error = |problem, remedy| {
        let both = format!("{} to {}", pair.internal, pair.external);
        ConfigError::for_part("prefix translation")("pair", both, problem, remedy)
    };
    let (internal, external) = (pair.internal, pair.external);
    if internal.addr().is_ipv4() != external.addr().is_ipv4() {
        return Err(error("of different IP versions", "give two prefixes of one version"));
    }
    if internal.prefix_len() != external.prefix_len() {
        return Err(error("of different lengths", "give two prefixes of one length"));
    }
    let overlap = |a: IpNet, b: IpNet| a.contains(&b) || b.contains(&a);
    let mut others = earlier.iter().filter(|other| other.side == pair.side);
    if others.any(|other| overlap(other.internal, internal) || overlap(other.external, external)) {
        return Err(error("which overlaps another pair", "translate each address by one pair only"));
    }
    Ok(())
}
