use crate::action::{Direction, PacketAction};
use crate::connections::TcpConnection;
use crate::counters::{DropCause, MiddleboxCounters};
use crate::fragments::ReleasedFragment;
use crate::header_rewrite::HeaderRewrite;
use crate::nat::{NatConfig, SessionInfo};
use crate::prefix::PrefixPair;
use crate::rules::{FilterRule, RefusalKind, RuleDecision, RuleState};
use crate::translator::{TranslationPlan, Translator};
use crate::treatment::{PassingPacket, Treatment, Treatments};
use kumade_packet::{Headers, ResetPair};
use kumade_units::{ConfigError, Time};

/// What a middlebox does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MiddleboxConfig {
    /// Applied in this order; the first that refuses a packet decides. They see the inside's addresses and ports.
    pub rules: Vec<FilterRule>,
    /// What is done to packets that the rules let pass: in this order, changes after refusals.
    pub treatments: Vec<Treatment>,
    /// Address and port translation for IPv4.
    pub nat: Option<NatConfig>,
    /// Stateless prefix translation. What a pair covers, the NAT44 leaves alone.
    pub prefixes: Vec<PrefixPair>,
}

/// A firewall and translator between an inside and an outside. Only forwarded packets count for the limits of its rules.
#[derive(Debug)]
pub struct Middlebox {
    rules: Vec<RuleState>,
    treatments: Treatments,
    translator: Translator,
    counters: MiddleboxCounters,
    now: Time,
    /// Whether the packet at hand has an incomplete transport checksum.
    is_offloaded: bool,
}

impl Middlebox {
    /// A middlebox without sessions. All its randomness (hashing, choice of ports) comes from `seed`: the same seed and
    /// packets give the same result. Where the inside or the outside may be hostile, the seed must be random and secret.
    ///
    /// # Errors
    /// A setting is invalid; the error says which, and what to give instead.
    pub fn new(config: MiddleboxConfig, seed: u128) -> Result<Self, ConfigError> {
        let rules = config.rules.into_iter().map(|rule| RuleState::new(rule, seed)).collect::<Result<_, _>>()?;
        let translator = Translator::new(config.nat, &config.prefixes, seed)?;
        Ok(Middlebox {
            rules,
            treatments: Treatments::new(config.treatments, seed)?,
            translator,
            counters: MiddleboxCounters::default(),
            now: Time::from_nanos(i64::MIN),
            is_offloaded: false,
        })
    }

    /// Decides about a packet, and translates it in place if it is to be forwarded. A packet that is dropped, held or
    /// answered remains unchanged; one whose connection is reset may be changed.
    ///
    /// `packet` begins with the IP header and may be followed by padding. `now` comes from a monotonic clock; should it
    /// decrease between calls, the latest time counts. After each call, [`Middlebox::next_released`] is to be called until it returns
    /// `None`.
    pub fn process_packet(&mut self, direction: Direction, packet: &mut [u8], now: Time) -> PacketAction {
        self.is_offloaded = false;
        self.process(direction, packet, now)
    }

    /// As [`Middlebox::process_packet`], for a packet whose sender has left the transport checksum, and perhaps segmentation, to
    /// its network card (see [`kumade_packet::offload`]), and which still has to be completed afterwards.
    pub fn process_offloaded_packet(&mut self, direction: Direction, packet: &mut [u8], now: Time) -> PacketAction {
        self.is_offloaded = true;
        self.process(direction, packet, now)
    }

    /// Takes a fragment that was [`PacketAction::Hold`] and whose datagram has been forwarded since.
    pub fn next_released(&mut self) -> Option<ReleasedFragment> {
        let mut released = self.translator.next_released()?;
        self.counters.forwarded += 1;
        if let Ok(headers) = Headers::parse(&released.packet) {
            self.is_offloaded = false;
            self.treat_packet(released.direction, &headers, &mut released.packet);
        }
        Some(released)
    }

    /// Ends what has timed out. [`Middlebox::process_packet`] does so, too; called while there are no packets, this keeps
    /// [`Middlebox::counters`] and [`Middlebox::sessions`] current.
    pub fn expire(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.translator.expire(self.now);
    }

    /// What happened so far, and how full the tables are.
    pub fn counters(&self) -> MiddleboxCounters {
        let mut counters = self.counters;
        self.translator.update_counters(&mut counters);
        counters
    }

    /// The sessions of the NAT44.
    pub fn sessions(&self) -> impl Iterator<Item = SessionInfo> + '_ {
        self.translator.sessions()
    }

    fn process(&mut self, direction: Direction, packet: &mut [u8], now: Time) -> PacketAction {
        self.expire(now);
        let Ok(headers) = Headers::parse(packet) else { return self.drop_packet(DropCause::Malformed) };
        match direction {
            Direction::Outbound => self.decide_outbound(packet, &headers),
            Direction::Inbound => self.decide_inbound(packet, &headers),
        }
    }

    fn decide_outbound(&mut self, packet: &mut [u8], headers: &Headers) -> PacketAction {
        let verdict = self.apply_rules(headers);
        if let Some(RuleDecision::Refuse(refusal)) = verdict {
            return self.refuse_packet(packet, refusal);
        }
        if let Some(action) = self.refuse_treated(Direction::Outbound, headers, packet) {
            return action;
        }
        match self.translator.plan_outbound(packet, headers, self.now) {
            Ok(TranslationPlan::Translate(passage)) => {
                self.forward_packet(Direction::Outbound, packet, &passage, verdict)
            }
            Ok(TranslationPlan::Hold) => self.hold_fragment(Direction::Outbound, headers, packet),
            Err(cause) => self.refuse_untranslated(Direction::Outbound, headers, packet, cause),
        }
    }

    fn decide_inbound(&mut self, packet: &mut [u8], headers: &Headers) -> PacketAction {
        let plan = match self.translator.plan_inbound(packet, headers) {
            Ok(plan) => plan,
            Err(cause) => return self.refuse_untranslated(Direction::Inbound, headers, packet, cause),
        };
        let inside = match &plan {
            TranslationPlan::Translate(passage) => passage.translated,
            TranslationPlan::Hold => *headers,
        };
        let verdict = self.apply_rules(&inside);
        if let Some(RuleDecision::Refuse(refusal)) = verdict {
            return self.refuse_packet(packet, refusal);
        }
        if let Some(action) = self.refuse_treated(Direction::Inbound, &inside, packet) {
            return action;
        }
        match (plan, verdict) {
            (TranslationPlan::Hold, _) => self.hold_fragment(Direction::Inbound, headers, packet),
            (TranslationPlan::Translate(passage), _) => {
                self.translator.confirm_rewrite(&passage, self.now);
                self.forward_packet(Direction::Inbound, packet, &passage, verdict)
            }
        }
    }

    fn apply_rules(&mut self, inside: &Headers) -> Option<RuleDecision> {
        self.rules.iter_mut().find_map(|rule| rule.decide(inside, self.now))
    }

    fn forward_packet(
        &mut self,
        direction: Direction,
        packet: &mut [u8],
        passage: &HeaderRewrite,
        verdict: Option<RuleDecision>,
    ) -> PacketAction {
        let inside = *passage.inside_headers(direction);
        if verdict == Some(RuleDecision::Reset) {
            self.remove_connection(&inside);
            return self.reset_connection(direction, packet, passage);
        }
        if passage.apply_to(packet, self.is_offloaded).is_err() {
            return self.drop_packet(DropCause::Malformed);
        }
        self.treat_packet(direction, &inside, packet);
        self.rules.iter_mut().for_each(|rule| rule.record_forwarded(&inside, self.now));
        self.translator.associate_fragments(direction, passage, self.now);
        self.counters.forwarded += 1;
        self.counters.hairpinned += u64::from(passage.is_hairpin);
        if passage.is_hairpin { PacketAction::Hairpin } else { PacketAction::Forward }
    }

    /// Resets to the source with the addresses and numbers before translation and treatment, and to the destination with those after
    /// it.
    fn reset_connection(&mut self, direction: Direction, packet: &mut [u8], passage: &HeaderRewrite) -> PacketAction {
        let action = self.drop_packet(DropCause::Rule);
        let Some(ResetPair { to_source, .. }) = kumade_packet::reset_both(packet) else { return action };
        if passage.apply_to(packet, self.is_offloaded).is_err() {
            return action;
        }
        let inside = *passage.inside_headers(direction);
        self.treat_packet(direction, &inside, packet);
        match kumade_packet::reset_both(packet) {
            Some(ResetPair { to_destination, .. }) => PacketAction::Reset(ResetPair { to_source, to_destination }),
            None => action,
        }
    }

    /// What becomes of a packet that a treatment drops.
    fn refuse_treated(&mut self, direction: Direction, inside: &Headers, packet: &[u8]) -> Option<PacketAction> {
        let passing = PassingPacket { direction, inside, is_offloaded: self.is_offloaded };
        let action = self.treatments.refuse(passing, packet)?;
        self.counters.record_drop(DropCause::Rule, 1);
        Some(action)
    }

    fn treat_packet(&mut self, direction: Direction, inside: &Headers, packet: &mut [u8]) {
        self.treatments.change(PassingPacket { direction, inside, is_offloaded: self.is_offloaded }, packet);
    }

    fn remove_connection(&mut self, inside: &Headers) {
        if let Some(connection) = TcpConnection::from_client(inside) {
            self.rules.iter_mut().for_each(|rule| rule.remove_connection(&connection));
        }
    }

    fn hold_fragment(&mut self, direction: Direction, headers: &Headers, packet: &[u8]) -> PacketAction {
        self.translator.hold_fragment(direction, headers, packet, self.now);
        PacketAction::Hold
    }

    fn refuse_packet(&mut self, packet: &[u8], refusal: RefusalKind) -> PacketAction {
        let action = self.drop_packet(DropCause::Rule);
        match refusal {
            RefusalKind::Drop => action,
            RefusalKind::Reject => kumade_packet::reject(packet).map_or(action, PacketAction::Reply),
        }
    }

    /// Refuses a packet that cannot be translated, as the NAT44 is told to.
    fn refuse_untranslated(
        &mut self,
        direction: Direction,
        headers: &Headers,
        packet: &[u8],
        cause: DropCause,
    ) -> PacketAction {
        let action = self.drop_packet(cause);
        if self.translator.nat_config().is_none_or(|nat| nat.refusal == RefusalKind::Drop) {
            return action;
        }
        let is_syn = headers.tcp().is_some_and(|tcp| tcp.is_connection_request());
        let reply = match (direction, cause) {
            (Direction::Outbound, DropCause::SpoofedSource) => None,
            (Direction::Outbound, _) => kumade_packet::prohibit(packet),
            // RFC 5382 REQ-4: "A NAT MUST NOT respond to an unsolicited inbound SYN packet for at least 6 seconds".
            (Direction::Inbound, _) if is_syn => None,
            (Direction::Inbound, _) => kumade_packet::reject(packet),
        };
        reply.map_or(action, PacketAction::Reply)
    }

    fn drop_packet(&mut self, cause: DropCause) -> PacketAction {
        self.counters.record_drop(cause, 1);
        PacketAction::Drop
    }
}

#[cfg(test)]
mod tests;
