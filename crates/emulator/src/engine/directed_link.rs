use super::frame::Frame;
use super::{DirectionConfig, EmulatorError};
use crate::statistics::{DropCause, Recorder};
use link::queue::Ecn;
use link::{Delivery, Fate, Label, Link, LinkConfig, Medium, Recording};
use middlebox::{Action, Direction, Middlebox};
use packet::{Selector, ecn};
use std::hash::{BuildHasher, RandomState};
use units::{Span, Time};

/// One direction: the rules, the link behind them, and what is noted of both.
pub(super) struct DirectedLink {
    config: DirectionConfig,
    link: Link<Frame>,
    /// When what carries the packets was set: a recorded trace begins then.
    carries_since: Time,
    rules: Option<Middlebox>,
    /// Flows are known by a hash whose key nobody knows, so that nobody can make his flows look like another's.
    hasher: RandomState,
}

/// What is to be sent back to where a packet came from.
pub(super) type Answer = Option<Vec<u8>>;

impl DirectedLink {
    pub(super) fn new(config: DirectionConfig, now: Time) -> Result<Self, EmulatorError> {
        let begun = DirectionConfig { link: begun(&config.link, now), ..config.clone() };
        let (link, rules) = begun.build()?;
        let mut lane = DirectedLink { config, link, carries_since: now, rules, hasher: RandomState::new() };
        lane.link.ledger_mut().record(Recording::All);
        Ok(lane)
    }

    /// A packet has arrived. Perhaps the rules want it answered.
    pub(super) fn offer(&mut self, mut frame: Frame, stamp: Time, recorder: &mut Recorder) -> Answer {
        let selector = if frame.carries_ip() { Selector::of(&frame.packet) } else { None };
        if selector.is_some() {
            trim(&mut frame.packet);
        }
        frame.flow = match &selector {
            Some(selector) => self.hasher.hash_one(selector),
            // Who speaks to whom, and in what protocol.
            None => self.hasher.hash_one(&frame.link[..]),
        };
        if recorder.offered(frame.flow, frame.size())
            && let Some(selector) = selector
        {
            recorder.describe(frame.flow, selector.key());
        }
        let (passes, answer) = if selector.is_some() { self.judge(&mut frame, stamp) } else { (true, None) };
        if passes {
            let ecn = if selector.is_some() { ecn_of(&frame.packet) } else { Ecn::NotCapable };
            let label = Label { size: frame.size(), flow: frame.flow, ecn };
            // What the link drops is in its ledger.
            let _ = self.link.offer_labelled(frame, label, stamp);
            self.note_drops(recorder);
        } else {
            recorder.dropped(frame.flow, frame.size(), DropCause::Refused);
        }
        answer
    }

    /// Asks the rules whether a packet, or what they have put in its place, passes, and what is answered.
    fn judge(&mut self, frame: &mut Frame, stamp: Time) -> (bool, Answer) {
        let Some(rules) = &mut self.rules else { return (true, None) };
        match rules.pass(Direction::Outbound, &mut frame.packet, stamp) {
            Action::Forward => (true, None),
            Action::Drop => (false, None),
            Action::Reply(reply) => (false, Some(reply)),
            Action::Reset(pair) => {
                frame.packet.clear();
                frame.packet.extend_from_slice(&pair.to_destination);
                (true, Some(pair.to_source))
            }
        }
    }

    /// Serves the queue up to `horizon`, up to which all arrivals are known. An idle link is left where it is, so that
    /// the next packet does not come before the link's time.
    pub(super) fn advance(&mut self, horizon: Time, recorder: &mut Recorder) {
        if self.link.queued_bytes() > 0 {
            self.link.advance(horizon);
            self.note_drops(recorder);
        }
        recorder.queued(self.link.queued_bytes());
    }

    /// The next packet that is due, marked where the queue wants that.
    pub(super) fn pop_due(&mut self, now: Time, recorder: &mut Recorder) -> Option<Delivery<Frame>> {
        let mut delivery = self.link.pop_due(now)?;
        if delivery.marked && ecn::mark(&mut delivery.packet.packet) {
            recorder.marked(delivery.packet.flow, delivery.size);
        }
        Some(delivery)
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        self.link.next_event()
    }

    /// Goes on with other settings from `now` on. What has not changed keeps its state.
    pub(super) fn set(
        &mut self,
        config: DirectionConfig,
        now: Time,
        recorder: &mut Recorder,
    ) -> Result<(), EmulatorError> {
        if config.queue != self.config.queue {
            self.link.replace_queue(&config.queue, now)?;
        }
        if config.link != self.config.link {
            if config.link.medium != self.config.link.medium {
                self.carries_since = now;
            }
            self.link.reconfigure(begun(&config.link, self.carries_since), now)?;
        }
        if config.rules != self.config.rules {
            self.rules = config.rules.clone().map(Middlebox::new).transpose()?;
        }
        self.config = config;
        self.note_drops(recorder);
        Ok(())
    }

    fn note_drops(&mut self, recorder: &mut Recorder) {
        let mut any = false;
        for entry in self.link.ledger().entries() {
            any = true;
            if let Fate::Dropped(_, cause) = entry.fate {
                recorder.dropped(entry.flow, entry.size, cause);
            }
        }
        if any {
            self.link.ledger_mut().forget_before(Time::MAX);
        }
    }
}

/// The link with its recorded trace, if it has one, begun at that time.
fn begun(link: &LinkConfig, at: Time) -> LinkConfig {
    let mut link = link.clone();
    if let Some(Medium::Trace(trace)) = &mut link.medium {
        *trace = trace.clone().starting_at(at);
    }
    link
}

/// How long a packet was on its way, and by how much it was late.
pub(super) fn times(delivery: &Delivery<Frame>, now: Time) -> (Span, Span) {
    (now - delivery.arrival, now - delivery.due)
}

fn ecn_of(packet: &[u8]) -> Ecn {
    match ecn::read(packet) {
        ecn::CAPABLE_0 => Ecn::Capable0,
        ecn::CAPABLE_1 => Ecn::Capable1,
        ecn::MARKED => Ecn::Marked,
        _ => Ecn::NotCapable,
    }
}

/// Cuts off what short Ethernet frames are filled with: it is no part of the packet.
fn trim(packet: &mut Vec<u8>) {
    let length = match packet[..] {
        [first, _, high, low, ..] if first >> 4 == 4 => usize::from(u16::from_be_bytes([high, low])),
        [first, _, _, _, high, low, ..] if first >> 4 == 6 => 40 + usize::from(u16::from_be_bytes([high, low])),
        _ => return,
    };
    if length >= 20 {
        packet.truncate(length);
    }
}

#[cfg(test)]
mod tests;
