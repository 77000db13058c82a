use crate::action::Direction;
use crate::counters::{DropCause, MiddleboxCounters};
use crate::fragments::{FragmentRoute, FragmentTable, ReleasedFragment};
use crate::header_rewrite::HeaderRewrite;
use crate::nat::{Nat44, NatConfig, SessionInfo, as_v4, set_error_source};
use crate::prefix::{PrefixPair, PrefixTable};
use kumade_packet::{Fragment, Headers, PacketEnd, checksum};
use kumade_units::{ConfigError, Time};

/// All translation of addresses: prefixes first, and what they do not cover by a NAT44.
#[derive(Debug)]
pub(crate) struct Translator {
    prefixes: PrefixTable,
    stateful: Option<StatefulTranslation>,
}

#[derive(Debug)]
struct StatefulTranslation {
    nat: Nat44,
    fragments: FragmentTable,
}

/// What a translator plans for a packet.
#[allow(clippy::large_enum_variant, reason = "it lives on the stack, and boxing would allocate for each packet")]
pub(crate) enum TranslationPlan {
    Translate(HeaderRewrite),
    /// A later fragment whose first one is missing.
    Hold,
}

impl Translator {
    pub(crate) fn new(nat: Option<NatConfig>, pairs: &[PrefixPair], seed: u128) -> Result<Self, ConfigError> {
        let prefixes = PrefixTable::new(pairs)?;
        let stateful = nat.map(|config| StatefulTranslation::new(config, seed)).transpose()?;
        if let Some(StatefulTranslation { nat, .. }) = &stateful
            && prefixes.is_external(nat.external_address().into())
        {
            let remedy = "translate each address by one rule only";
            let (name, problem) = ("external address", "which belongs to a translated prefix");
            return Err(ConfigError::for_part("address translation")(
                name,
                nat.external_address().to_string(),
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

    pub(crate) fn update_counters(&self, counters: &mut MiddleboxCounters) {
        let Some(StatefulTranslation { nat, fragments }) = &self.stateful else { return };
        counters.sessions_created = nat.created_sessions;
        counters.sessions_expired = nat.expired_sessions;
        counters.sessions_evicted = nat.evicted_sessions;
        (counters.sessions, counters.mappings, counters.hosts) = nat.occupancy();
        counters.fragments_held = fragments.held_total;
        counters.fragments_released = fragments.released_total;
        counters.record_drop(DropCause::Fragment, fragments.dropped_total);
    }

    /// Ends what has timed out.
    pub(crate) fn expire(&mut self, now: Time) {
        if let Some(StatefulTranslation { nat, fragments }) = &mut self.stateful {
            nat.expire(now);
            fragments.expire(now);
        }
    }

    /// Plans how a packet from the inside leaves, or returns to the inside where it is addressed to an external address
    /// (RFC 4787 REQ-9: "A NAT MUST support 'Hairpinning'", with "External source IP address and port").
    pub(crate) fn plan_outbound(
        &mut self,
        packet: &[u8],
        headers: &Headers,
        now: Time,
    ) -> Result<TranslationPlan, DropCause> {
        let mut passage = HeaderRewrite::new(packet, headers);
        let is_covered = self.prefixes.translate_to_external(&mut passage.translated, PacketEnd::Source)?;
        let is_own = self.is_external_destination(&passage.translated);
        if let Some(stateful) = &mut self.stateful
            && headers.source.is_ipv4()
            && (!is_covered || stateful.is_external(&passage.translated))
        {
            if headers.fragment == Fragment::Later {
                return Ok(stateful.plan_later_fragment(Direction::Outbound, passage));
            }
            passage.has_later_fragments = headers.fragment == Fragment::First;
        }
        self.translate_outbound(packet, &mut passage, is_covered, now)?;
        if is_own {
            passage.is_hairpin = true;
            self.translate_inbound(packet, &mut passage)?;
            self.confirm_rewrite(&passage, now);
        }
        Ok(TranslationPlan::Translate(passage))
    }

    /// Plans how a packet from the outside enters. [`Translator::confirm_rewrite`] follows when it does.
    pub(crate) fn plan_inbound(&self, packet: &[u8], headers: &Headers) -> Result<TranslationPlan, DropCause> {
        let mut passage = HeaderRewrite::new(packet, headers);
        if let Some(stateful) = &self.stateful
            && stateful.is_external(headers)
        {
            if headers.fragment == Fragment::Later {
                return Ok(stateful.plan_later_fragment(Direction::Inbound, passage));
            }
            passage.has_later_fragments = headers.fragment == Fragment::First;
        }
        self.translate_inbound(packet, &mut passage)?;
        Ok(TranslationPlan::Translate(passage))
    }

    /// Notes that a packet from the outside is forwarded.
    pub(crate) fn confirm_rewrite(&mut self, passage: &HeaderRewrite, now: Time) {
        if let (Some(stateful), Some(session)) = (&mut self.stateful, passage.session) {
            stateful.nat.confirm_session(session, &passage.translated, now);
        }
    }

    /// Lets the other fragments of a forwarded packet's datagram follow it.
    pub(crate) fn associate_fragments(&mut self, direction: Direction, passage: &HeaderRewrite, now: Time) {
        let HeaderRewrite { original: before, translated: after, is_hairpin: hairpin, .. } = passage;
        if passage.has_later_fragments
            && let Some(StatefulTranslation { fragments, .. }) = &mut self.stateful
        {
            let route = FragmentRoute { source: after.source, destination: after.destination, is_hairpin: *hairpin };
            fragments.associate_datagram(direction, before, route, now);
        }
    }

    /// Holds a copy of a later fragment until the first one arrives.
    pub(crate) fn hold_fragment(&mut self, direction: Direction, headers: &Headers, packet: &[u8], now: Time) {
        if let Some(StatefulTranslation { fragments, .. }) = &mut self.stateful {
            fragments.hold_fragment(direction, headers, packet, now);
        }
    }

    pub(crate) fn next_released(&mut self) -> Option<ReleasedFragment> {
        self.stateful.as_mut()?.fragments.next_released()
    }

    /// Whether a packet is addressed to an external address of this translator.
    fn is_external_destination(&self, headers: &Headers) -> bool {
        self.prefixes.is_external(headers.destination)
            || self.stateful.as_ref().is_some_and(|stateful| stateful.is_external(headers))
    }

    /// From the inside's addresses to the outside's. Prefixes have already translated the packet's own; `is_covered` says
    /// whether its source was one of theirs.
    fn translate_outbound(
        &mut self,
        packet: &[u8],
        passage: &mut HeaderRewrite,
        is_covered: bool,
        now: Time,
    ) -> Result<(), DropCause> {
        let HeaderRewrite { original: before, translated: after, quote, .. } = passage;
        let is_quote_covered = match quote {
            Some((_, quoted)) => self.prefixes.translate_to_external(quoted, PacketEnd::Destination)?,
            None => false,
        };
        let Some(StatefulTranslation { nat, .. }) = &mut self.stateful else { return Ok(()) };
        if before.source.is_ipv6() || is_covered && (quote.is_none() || is_quote_covered) {
            return Ok(());
        }
        if !before.is_icmp_error() {
            return nat.translate_outbound(after, now);
        }
        let (offset, quoted) =
            quote.as_mut().map(|(quote, quoted)| (quote.offset, quoted)).ok_or(DropCause::IcmpError)?;
        if !is_quote_covered {
            check_icmp_error(packet, offset)?;
            nat.translate_outbound_error(quoted)?;
        }
        if !is_covered {
            set_error_source(after, nat.external_address());
        }
        Ok(())
    }

    /// From the outside's addresses to the inside's.
    fn translate_inbound(&self, packet: &[u8], passage: &mut HeaderRewrite) -> Result<(), DropCause> {
        let HeaderRewrite { translated: after, quote, .. } = passage;
        let is_for_nat = self.stateful.as_ref().is_some_and(|stateful| stateful.is_external(after));
        let is_covered = self.prefixes.translate_to_internal(after, PacketEnd::Destination)?;
        if let Some((_, quoted)) = quote {
            self.prefixes.translate_to_internal(quoted, PacketEnd::Source)?;
        }
        let Some(StatefulTranslation { nat, .. }) = &self.stateful else { return Ok(()) };
        if after.source.is_ipv6() || is_covered {
            return Ok(());
        }
        if !is_for_nat {
            return Err(DropCause::NoMapping);
        }
        if !after.is_icmp_error() {
            passage.session = nat.translate_inbound(after)?;
            return Ok(());
        }
        let (offset, quoted) =
            quote.as_mut().map(|(quote, quoted)| (quote.offset, quoted)).ok_or(DropCause::IcmpError)?;
        check_icmp_error(packet, offset)?;
        nat.translate_inbound_error(quoted)?;
        // RFC 5508 REQ-4 c): "Modify the destination IP address of the outer IP header to be the same as the source IP
        // address of the embedded packet after translation."
        after.set_address(PacketEnd::Destination, quoted.source);
        Ok(())
    }
}

impl StatefulTranslation {
    fn new(config: NatConfig, seed: u128) -> Result<Self, ConfigError> {
        let nat = Nat44::new(config, seed)?;
        let (limits, timeout) = (config.limits, config.timeouts.fragment);
        let fragments = FragmentTable::new(
            seed,
            limits.max_fragmented_datagrams as usize,
            limits.max_held_fragments as usize,
            timeout,
        );
        Ok(StatefulTranslation { nat, fragments })
    }

    fn is_external(&self, headers: &Headers) -> bool {
        as_v4(headers.destination) == Some(self.nat.external_address())
    }

    /// A later fragment goes where the first one went.
    fn plan_later_fragment(&self, direction: Direction, mut passage: HeaderRewrite) -> TranslationPlan {
        let Some(route) = self.fragments.find_route(direction, &passage.original) else { return TranslationPlan::Hold };
        passage.translated = route.translate_headers(&passage.original);
        passage.is_hairpin = route.is_hairpin;
        TranslationPlan::Translate(passage)
    }
}

/// RFC 5508 REQ-3: "When an ICMP Error packet is received, if the ICMP checksum fails to validate, the NAT SHOULD silently
/// drop the ICMP Error packet", and a): the same for the IP checksum of the embedded packet.
fn check_icmp_error(packet: &[u8], quote_offset: usize) -> Result<(), DropCause> {
    let is_valid = checksum::is_valid(packet) == Ok(true) && checksum::is_header_valid(&packet[quote_offset..]);
    if is_valid { Ok(()) } else { Err(DropCause::IcmpError) }
}
