use crate::action::Direction;
use crate::counters::{Counters, DropCause};
use crate::fragments::{Fragments, Released, Route};
use crate::nat::{Nat, NatConfig, SessionInfo, set_error_source, v4};
use crate::passage::Passage;
use crate::prefix::{PrefixPair, Prefixes};
use kumade_packet::{End, Fragment, Headers, checksum};
use kumade_units::{ConfigError, Time};

/// All translation of addresses: prefixes first, and what they do not cover by a NAT44.
#[derive(Debug)]
pub(crate) struct Translator {
    prefixes: Prefixes,
    stateful: Option<Stateful>,
}

#[derive(Debug)]
struct Stateful {
    nat: Nat,
    fragments: Fragments,
}

/// What a translator plans for a packet.
#[allow(clippy::large_enum_variant, reason = "it lives on the stack, and boxing would allocate for each packet")]
pub(crate) enum Plan {
    Pass(Passage),
    /// A later fragment whose first one is missing.
    Hold,
}

impl Translator {
    pub(crate) fn new(nat: Option<NatConfig>, pairs: &[PrefixPair], seed: u128) -> Result<Self, ConfigError> {
        let prefixes = Prefixes::new(pairs)?;
        let stateful = nat.map(|config| Stateful::new(config, seed)).transpose()?;
        if let Some(Stateful { nat, .. }) = &stateful
            && prefixes.is_external(nat.external().into())
        {
            let remedy = "translate each address by one rule only";
            let (name, problem) = ("external address", "which belongs to a translated prefix");
            return Err(ConfigError::for_part("address translation")(
                name,
                nat.external().to_string(),
                problem,
                remedy,
            ));
        }
        Ok(Translator { prefixes, stateful })
    }

    pub(crate) fn nat_config(&self) -> Option<&NatConfig> {
        self.stateful.as_ref().map(|stateful| stateful.nat.config())
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionInfo> + '_ {
        self.stateful.iter().flat_map(|stateful| stateful.nat.sessions())
    }

    pub(crate) fn count(&self, counters: &mut Counters) {
        let Some(Stateful { nat, fragments }) = &self.stateful else { return };
        counters.sessions_created = nat.created;
        counters.sessions_expired = nat.expired;
        counters.sessions_evicted = nat.evicted;
        (counters.sessions, counters.mappings, counters.hosts) = nat.occupancy();
        counters.fragments_held = fragments.held_total;
        counters.fragments_released = fragments.released_total;
        counters.drop(DropCause::Fragment, fragments.dropped_total);
    }

    /// Ends what has timed out.
    pub(crate) fn expire(&mut self, now: Time) {
        if let Some(Stateful { nat, fragments }) = &mut self.stateful {
            nat.expire(now);
            fragments.expire(now);
        }
    }

    /// Plans how a packet from the inside leaves, or returns to the inside where it is addressed to an external address
    /// (RFC 4787 REQ-9: "A NAT MUST support 'Hairpinning'", with "External source IP address and port").
    pub(crate) fn outbound(&mut self, packet: &[u8], headers: &Headers, now: Time) -> Result<Plan, DropCause> {
        let mut passage = Passage::new(packet, headers);
        let is_covered = self.prefixes.externalise(&mut passage.after, End::Source)?;
        let is_own = self.is_own(&passage.after);
        if let Some(stateful) = &mut self.stateful
            && headers.source.is_ipv4()
            && (!is_covered || stateful.is_external(&passage.after))
        {
            if headers.fragment == Fragment::Later {
                return Ok(stateful.follow(Direction::Outbound, passage));
            }
            passage.leads_fragments = headers.fragment == Fragment::First;
        }
        self.leave(packet, &mut passage, is_covered, now)?;
        if is_own {
            passage.hairpin = true;
            self.enter(packet, &mut passage)?;
            self.confirm(&passage, now);
        }
        Ok(Plan::Pass(passage))
    }

    /// Plans how a packet from the outside enters. [`Translator::confirm`] follows when it does.
    pub(crate) fn inbound(&self, packet: &[u8], headers: &Headers) -> Result<Plan, DropCause> {
        let mut passage = Passage::new(packet, headers);
        if let Some(stateful) = &self.stateful
            && stateful.is_external(headers)
        {
            if headers.fragment == Fragment::Later {
                return Ok(stateful.follow(Direction::Inbound, passage));
            }
            passage.leads_fragments = headers.fragment == Fragment::First;
        }
        self.enter(packet, &mut passage)?;
        Ok(Plan::Pass(passage))
    }

    /// Notes that a packet from the outside is forwarded.
    pub(crate) fn confirm(&mut self, passage: &Passage, now: Time) {
        if let (Some(stateful), Some(session)) = (&mut self.stateful, passage.session) {
            stateful.nat.confirm(session, &passage.after, now);
        }
    }

    /// Lets the other fragments of a forwarded packet's datagram follow it.
    pub(crate) fn lead(&mut self, direction: Direction, passage: &Passage, now: Time) {
        let Passage { before, after, hairpin, .. } = passage;
        if passage.leads_fragments
            && let Some(Stateful { fragments, .. }) = &mut self.stateful
        {
            let route = Route { source: after.source, destination: after.destination, hairpin: *hairpin };
            fragments.associate(direction, before, route, now);
        }
    }

    /// Holds a copy of a later fragment until the first one arrives.
    pub(crate) fn hold(&mut self, direction: Direction, headers: &Headers, packet: &[u8], now: Time) {
        if let Some(Stateful { fragments, .. }) = &mut self.stateful {
            fragments.hold(direction, headers, packet, now);
        }
    }

    pub(crate) fn next_released(&mut self) -> Option<Released> {
        self.stateful.as_mut()?.fragments.next_released()
    }

    /// Whether a packet is addressed to an external address of this translator.
    fn is_own(&self, headers: &Headers) -> bool {
        self.prefixes.is_external(headers.destination)
            || self.stateful.as_ref().is_some_and(|stateful| stateful.is_external(headers))
    }

    /// From the inside's addresses to the outside's. Prefixes have already translated the packet's own; `is_covered` says
    /// whether its source was one of theirs.
    fn leave(&mut self, packet: &[u8], passage: &mut Passage, is_covered: bool, now: Time) -> Result<(), DropCause> {
        let Passage { before, after, quote, .. } = passage;
        let is_quote_covered = match quote {
            Some((_, quoted)) => self.prefixes.externalise(quoted, End::Destination)?,
            None => false,
        };
        let Some(Stateful { nat, .. }) = &mut self.stateful else { return Ok(()) };
        if before.source.is_ipv6() || is_covered && (quote.is_none() || is_quote_covered) {
            return Ok(());
        }
        if !before.is_icmp_error() {
            return nat.outbound(after, now);
        }
        let (offset, quoted) =
            quote.as_mut().map(|(quote, quoted)| (quote.offset, quoted)).ok_or(DropCause::IcmpError)?;
        if !is_quote_covered {
            check_error(packet, offset)?;
            nat.outbound_error(quoted)?;
        }
        if !is_covered {
            set_error_source(after, nat.external());
        }
        Ok(())
    }

    /// From the outside's addresses to the inside's.
    fn enter(&self, packet: &[u8], passage: &mut Passage) -> Result<(), DropCause> {
        let Passage { after, quote, .. } = passage;
        let is_for_nat = self.stateful.as_ref().is_some_and(|stateful| stateful.is_external(after));
        let is_covered = self.prefixes.internalise(after, End::Destination)?;
        if let Some((_, quoted)) = quote {
            self.prefixes.internalise(quoted, End::Source)?;
        }
        let Some(Stateful { nat, .. }) = &self.stateful else { return Ok(()) };
        if after.source.is_ipv6() || is_covered {
            return Ok(());
        }
        if !is_for_nat {
            return Err(DropCause::NoMapping);
        }
        if !after.is_icmp_error() {
            passage.session = nat.inbound(after)?;
            return Ok(());
        }
        let (offset, quoted) =
            quote.as_mut().map(|(quote, quoted)| (quote.offset, quoted)).ok_or(DropCause::IcmpError)?;
        check_error(packet, offset)?;
        nat.inbound_error(quoted)?;
        // RFC 5508 REQ-4 c): "Modify the destination IP address of the outer IP header to be the same as the source IP
        // address of the embedded packet after translation."
        after.set_address(End::Destination, quoted.source);
        Ok(())
    }
}

impl Stateful {
    fn new(config: NatConfig, seed: u128) -> Result<Self, ConfigError> {
        let nat = Nat::new(config, seed)?;
        let (limits, timeout) = (config.limits, config.timeouts.fragment);
        let fragments = Fragments::new(seed, limits.associations as usize, limits.held_fragments as usize, timeout);
        Ok(Stateful { nat, fragments })
    }

    fn is_external(&self, headers: &Headers) -> bool {
        v4(headers.destination) == Some(self.nat.external())
    }

    /// A later fragment goes where the first one went.
    fn follow(&self, direction: Direction, mut passage: Passage) -> Plan {
        let Some(route) = self.fragments.route(direction, &passage.before) else { return Plan::Hold };
        passage.after = route.translated(&passage.before);
        passage.hairpin = route.hairpin;
        Plan::Pass(passage)
    }
}

/// RFC 5508 REQ-3: "When an ICMP Error packet is received, if the ICMP checksum fails to validate, the NAT SHOULD silently
/// drop the ICMP Error packet", and a): the same for the IP checksum of the embedded packet.
fn check_error(packet: &[u8], quote_offset: usize) -> Result<(), DropCause> {
    let is_valid = checksum::is_valid(packet) == Ok(true) && checksum::is_header_valid(&packet[quote_offset..]);
    if is_valid { Ok(()) } else { Err(DropCause::IcmpError) }
}
