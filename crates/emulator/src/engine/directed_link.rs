use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::frame::Frame;
use crate::statistics::{DropCause, Recorder};
use link::queue::Ecn;
use link::{Delivery, Fate, Label, Link, LinkConfig, Medium, Recording};
use middlebox::{Action, Direction, Middlebox};
use packet::{Selector, ecn};
use runtime::FlowHasher;
use runtime::flow::ecn_of;
use units::Time;

/// One direction: the filter rules and the link behind them.
pub(super) struct DirectedLink {
    config: DirectionConfig,
    link: Link<Frame>,
    /// When the medium was set: a recorded trace begins then.
    medium_since: Time,
    rules: Option<Middlebox>,
    flows: FlowHasher,
}

/// A packet to be sent back to where another one came from.
pub(super) type Reply = Option<Vec<u8>>;

impl DirectedLink {
    pub(super) fn new(config: DirectionConfig, now: Time) -> Result<Self, EmulatorError> {
        let begun = DirectionConfig { link: begun(&config.link, now), ..config.clone() };
        let (link, rules) = begun.build()?;
        let mut directed = DirectedLink { config, link, medium_since: now, rules, flows: FlowHasher::new() };
        directed.link.ledger_mut().record(Recording::All);
        Ok(directed)
    }

    /// A packet has arrived. The rules may reply to it.
    pub(super) fn offer(&mut self, mut frame: Frame, stamp: Time, recorder: &mut Recorder) -> Reply {
        let selector = if frame.carries_ip() { Selector::of(&frame.packet) } else { None };
        if selector.is_some() {
            trim(&mut frame.packet);
        }
        frame.flow = match &selector {
            Some(selector) => self.flows.hash(selector),
            // Addresses and protocol.
            None => self.flows.hash(&frame.link[..]),
        };
        if recorder.offered(frame.flow, frame.size())
            && let Some(selector) = selector
        {
            recorder.describe(frame.flow, selector.key());
        }
        let (passes, reply) = if selector.is_some() { self.judge(&mut frame, stamp) } else { (true, None) };
        if passes {
            let ecn = if selector.is_some() { ecn_of(&frame.packet) } else { Ecn::NotCapable };
            let label = Label { size: frame.size(), flow: frame.flow, ecn };
            // What the link drops is in its ledger.
            let _ = self.link.offer_labelled(frame, label, stamp);
            self.note_drops(recorder);
        } else {
            recorder.dropped(frame.flow, frame.size(), DropCause::Refused);
        }
        reply
    }

    /// Applies the rules: whether the packet, or the one that they have put in its place, passes, and their reply.
    fn judge(&mut self, frame: &mut Frame, stamp: Time) -> (bool, Reply) {
        let Some(rules) = &mut self.rules else { return (true, None) };
        match rules.pass(Direction::Outbound, &mut frame.packet, stamp) {
            // Rules alone neither hairpin nor hold.
            Action::Forward | Action::Hairpin => (true, None),
            Action::Drop | Action::Held => (false, None),
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
                self.medium_since = now;
            }
            self.link.reconfigure(begun(&config.link, self.medium_since), now)?;
        }
        if config.rules != self.config.rules {
            self.rules = config.build_rules()?;
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

/// Cuts off the padding of short Ethernet frames: it is no part of the packet.
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
