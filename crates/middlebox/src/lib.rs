//! What stands in a path and does more than forward: firewalls, limits, and translators of addresses.
//!
//! A [`Middlebox`] sees each packet before the link of its direction does and says what becomes of it. It judges by the
//! packet's bytes alone, and whatever they are, it needs bounded memory and time for them. As everywhere here, time
//! comes with the packet.
#![forbid(unsafe_code)]

mod connections;
mod nat;
mod rules;
#[cfg(test)]
mod tests;

pub use nat::NatConfig;
pub use rules::{Match, Refusal, ResetScope, Rule};

use connections::Connection;
use nat::{Nat, Translation};
use packet::{Headers, ResetPair};
use rules::{RuleState, Verdict};
use units::{ConfigError, Time};

/// Which way a packet goes through a middlebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the inside, the side that a translator hides, to the outside.
    Outbound,
    /// From the outside to the inside.
    Inbound,
}

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It goes on, with what the middlebox changed in it.
    Forward,
    /// It is gone.
    Drop,
    /// It is gone, and this packet goes back to where it came from.
    Reply(Vec<u8>),
    /// It is gone, and its connection is broken off towards both ends.
    Reset(ResetPair),
}

/// What a middlebox does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MiddleboxConfig {
    /// Tried in this order; the first that refuses a packet decides. They see the addresses of the inside.
    pub rules: Vec<Rule>,
    /// Translation of addresses and ports, if any.
    pub nat: Option<NatConfig>,
}

/// A firewall, limiter and translator. Only packets that it forwards count for its limits.
#[derive(Debug)]
pub struct Middlebox {
    rules: Vec<RuleState>,
    nat: Option<Nat>,
}

impl Middlebox {
    /// A middlebox that has seen nothing yet.
    pub fn new(config: MiddleboxConfig) -> Result<Self, ConfigError> {
        let rules = config.rules.into_iter().map(RuleState::new).collect::<Result<_, _>>()?;
        let nat = config.nat.map(Nat::new).transpose()?;
        Ok(Middlebox { rules, nat })
    }

    /// Judges a packet, and changes it where it is forwarded translated. What is no whole IP packet is dropped.
    pub fn pass(&mut self, direction: Direction, packet: &mut Vec<u8>, now: Time) -> Action {
        let Ok(mut headers) = Headers::parse(packet) else { return Action::Drop };
        packet.truncate(headers.total_len);
        // Answers go to the sender, who must see the addresses that it used.
        let as_sent = self.nat.is_some().then(|| packet.clone());
        if direction == Direction::Inbound
            && let Some(nat) = &mut self.nat
        {
            match nat.inbound(packet, &headers, now) {
                Translation::Done => {}
                Translation::Refused(how) => return refuse(packet, how),
            }
            let Ok(translated) = Headers::parse(packet) else { return Action::Drop };
            headers = translated;
        }
        let verdict = self.rules.iter_mut().find_map(|rule| rule.judge(&headers, now));
        if let Some(Verdict::Refuse(how)) = verdict {
            return refuse(as_sent.as_ref().unwrap_or(packet), how);
        }
        if direction == Direction::Outbound
            && let Some(nat) = &mut self.nat
            && let Translation::Refused(how) = nat.outbound(packet, &headers, now)
        {
            return refuse(as_sent.as_ref().unwrap_or(packet), how);
        }
        if verdict == Some(Verdict::Reset) {
            self.forget(&headers);
            return reset(as_sent.as_ref().unwrap_or(packet), packet);
        }
        self.rules.iter_mut().for_each(|rule| rule.forwarded(&headers, now));
        Action::Forward
    }

    fn forget(&mut self, headers: &Headers) {
        if let Some(connection) = Connection::from_client(headers) {
            self.rules.iter_mut().for_each(|rule| rule.forget(&connection));
        }
    }
}

fn refuse(as_sent: &[u8], how: Refusal) -> Action {
    match how {
        Refusal::Drop => Action::Drop,
        Refusal::Reject => packet::reject(as_sent).map_or(Action::Drop, Action::Reply),
    }
}

/// Towards its sender with the addresses as sent, towards its receiver with those it would have arrived with.
fn reset(as_sent: &[u8], as_forwarded: &[u8]) -> Action {
    match (packet::reset_both(as_sent), packet::reset_both(as_forwarded)) {
        (Some(back), Some(onward)) => {
            Action::Reset(ResetPair { to_source: back.to_source, to_destination: onward.to_destination })
        }
        _ => Action::Drop,
    }
}
