use crate::action::{Action, Direction};
use crate::connections::Connection;
use crate::counters::{Counters, DropCause};
use crate::fragments::Released;
use crate::nat::{NatConfig, SessionInfo};
use crate::passage::Passage;
use crate::prefix::PrefixPair;
use crate::rules::{Refusal, Rule, RuleState, Verdict};
use crate::translator::{Plan, Translator};
use kumade_packet::{Headers, ResetPair};
use kumade_units::{ConfigError, Time};

/// What a middlebox does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MiddleboxConfig {
    /// Applied in this order; the first that refuses a packet decides. They see the inside's addresses and ports.
    pub rules: Vec<Rule>,
    /// Address and port translation for IPv4.
    pub nat: Option<NatConfig>,
    /// Stateless prefix translation. What a pair covers, the NAT44 leaves alone.
    pub prefixes: Vec<PrefixPair>,
}

/// A firewall and translator between an inside and an outside. Only forwarded packets count for the limits of its rules.
#[derive(Debug)]
pub struct Middlebox {
    rules: Vec<RuleState>,
    translator: Translator,
    counters: Counters,
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
            translator,
            counters: Counters::default(),
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
    pub fn pass(&mut self, direction: Direction, packet: &mut [u8], now: Time) -> Action {
        self.is_offloaded = false;
        self.decide(direction, packet, now)
    }

    /// As [`Middlebox::pass`], for a packet whose sender has left the transport checksum, and perhaps segmentation, to
    /// its network card (see [`kumade_packet::offload`]), and which still has to be completed afterwards.
    pub fn pass_offloaded(&mut self, direction: Direction, packet: &mut [u8], now: Time) -> Action {
        self.is_offloaded = true;
        self.decide(direction, packet, now)
    }

    /// Takes a fragment that was [`Action::Held`] and whose datagram has been forwarded since.
    pub fn next_released(&mut self) -> Option<Released> {
        let released = self.translator.next_released()?;
        self.counters.forwarded += 1;
        Some(released)
    }

    /// Ends what has timed out. [`Middlebox::pass`] does so, too; called while there are no packets, this keeps
    /// [`Middlebox::counters`] and [`Middlebox::sessions`] current.
    pub fn expire(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.translator.expire(self.now);
    }

    /// What happened so far, and how full the tables are.
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        self.translator.count(&mut counters);
        counters
    }

    /// The sessions of the NAT44.
    pub fn sessions(&self) -> impl Iterator<Item = SessionInfo> + '_ {
        self.translator.sessions()
    }

    fn decide(&mut self, direction: Direction, packet: &mut [u8], now: Time) -> Action {
        self.expire(now);
        let Ok(headers) = Headers::parse(packet) else { return self.drop(DropCause::Malformed) };
        match direction {
            Direction::Outbound => self.outbound(packet, &headers),
            Direction::Inbound => self.inbound(packet, &headers),
        }
    }

    fn outbound(&mut self, packet: &mut [u8], headers: &Headers) -> Action {
        let verdict = self.judge(headers);
        if let Some(Verdict::Refuse(refusal)) = verdict {
            return self.refuse(packet, refusal);
        }
        match self.translator.outbound(packet, headers, self.now) {
            Ok(Plan::Pass(passage)) => self.forward(Direction::Outbound, packet, &passage, verdict),
            Ok(Plan::Hold) => self.hold(Direction::Outbound, headers, packet),
            Err(cause) => self.refuse_untranslated(Direction::Outbound, headers, packet, cause),
        }
    }

    fn inbound(&mut self, packet: &mut [u8], headers: &Headers) -> Action {
        let plan = match self.translator.inbound(packet, headers) {
            Ok(plan) => plan,
            Err(cause) => return self.refuse_untranslated(Direction::Inbound, headers, packet, cause),
        };
        let verdict = match &plan {
            Plan::Pass(passage) => self.judge(&passage.after),
            Plan::Hold => self.judge(headers),
        };
        match (plan, verdict) {
            (_, Some(Verdict::Refuse(refusal))) => self.refuse(packet, refusal),
            (Plan::Hold, _) => self.hold(Direction::Inbound, headers, packet),
            (Plan::Pass(passage), _) => {
                self.translator.confirm(&passage, self.now);
                self.forward(Direction::Inbound, packet, &passage, verdict)
            }
        }
    }

    fn judge(&mut self, inside: &Headers) -> Option<Verdict> {
        self.rules.iter_mut().find_map(|rule| rule.judge(inside, self.now))
    }

    fn forward(
        &mut self,
        direction: Direction,
        packet: &mut [u8],
        passage: &Passage,
        verdict: Option<Verdict>,
    ) -> Action {
        let inside = if direction == Direction::Outbound { passage.before } else { passage.after };
        if verdict == Some(Verdict::Reset) {
            self.forget(&inside);
            return self.reset(packet, passage);
        }
        if passage.apply(packet, self.is_offloaded).is_err() {
            return self.drop(DropCause::Malformed);
        }
        self.rules.iter_mut().for_each(|rule| rule.forwarded(&inside, self.now));
        self.translator.lead(direction, passage, self.now);
        self.counters.forwarded += 1;
        self.counters.hairpinned += u64::from(passage.hairpin);
        if passage.hairpin { Action::Hairpin } else { Action::Forward }
    }

    /// Resets to the source with the addresses before translation, and to the destination with those after it.
    fn reset(&mut self, packet: &mut [u8], passage: &Passage) -> Action {
        let action = self.drop(DropCause::Rule);
        let Some(ResetPair { to_source, .. }) = kumade_packet::reset_both(packet) else { return action };
        if passage.apply(packet, self.is_offloaded).is_err() {
            return action;
        }
        match kumade_packet::reset_both(packet) {
            Some(ResetPair { to_destination, .. }) => Action::Reset(ResetPair { to_source, to_destination }),
            None => action,
        }
    }

    fn forget(&mut self, inside: &Headers) {
        if let Some(connection) = Connection::from_client(inside) {
            self.rules.iter_mut().for_each(|rule| rule.forget(&connection));
        }
    }

    fn hold(&mut self, direction: Direction, headers: &Headers, packet: &[u8]) -> Action {
        self.translator.hold(direction, headers, packet, self.now);
        Action::Held
    }

    fn refuse(&mut self, packet: &[u8], refusal: Refusal) -> Action {
        let action = self.drop(DropCause::Rule);
        match refusal {
            Refusal::Drop => action,
            Refusal::Reject => kumade_packet::reject(packet).map_or(action, Action::Reply),
        }
    }

    /// Refuses a packet that cannot be translated, as the NAT44 is told to.
    fn refuse_untranslated(
        &mut self,
        direction: Direction,
        headers: &Headers,
        packet: &[u8],
        cause: DropCause,
    ) -> Action {
        let action = self.drop(cause);
        if self.translator.nat_config().is_none_or(|nat| nat.refusal == Refusal::Drop) {
            return action;
        }
        let is_syn = headers.tcp().is_some_and(|tcp| tcp.opens());
        let reply = match (direction, cause) {
            (Direction::Outbound, DropCause::SpoofedSource) => None,
            (Direction::Outbound, _) => kumade_packet::prohibit(packet),
            // RFC 5382 REQ-4: "A NAT MUST NOT respond to an unsolicited inbound SYN packet for at least 6 seconds".
            (Direction::Inbound, _) if is_syn => None,
            (Direction::Inbound, _) => kumade_packet::reject(packet),
        };
        reply.map_or(action, Action::Reply)
    }

    fn drop(&mut self, cause: DropCause) -> Action {
        self.counters.drop(cause, 1);
        Action::Drop
    }
}

#[cfg(test)]
mod tests;
