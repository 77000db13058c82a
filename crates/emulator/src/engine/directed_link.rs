use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::frame::{Frame, Received};
use crate::statistics::{DropCause, Recorder};
use kumade_link::{Delivery, Fate, Label, Link, Recording};
use kumade_middlebox::{Action, Direction, Middlebox};
use kumade_packet::{Classification, ecn};
use kumade_packet_loop::FlowHasher;
use kumade_units::Time;

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
        let mut link = Link::with_queue(config.link.clone().starting_at(now), &config.queue);
        link.bound_memory(Frame::heap_bytes);
        let rules = config.middlebox()?;
        let mut directed = DirectedLink { config, link, medium_since: now, rules, flows: FlowHasher::new() };
        directed.link.ledger_mut().record(Recording::Drops);
        Ok(directed)
    }

    /// A packet has arrived. The rules may reply to it.
    pub(super) fn offer(&mut self, mut received: Received, stamp: Time, recorder: &mut Recorder) -> Reply {
        let mut label = self.flows.label(&received.classification);
        let (mut passes, mut reply) = (true, None);
        match &received.classification.selector {
            Some(selector) => {
                if recorder.offered(label.flow, label.size) {
                    recorder.describe(label.flow, selector.key());
                }
                (passes, reply) = self.judge(&mut received.frame, &mut label, stamp);
            }
            None => {
                // Addresses and protocol.
                label.flow = self.flows.hash(&received.frame.link[..]);
                recorder.offered(label.flow, label.size);
            }
        }
        if passes {
            // What the link drops is in its ledger.
            let _ = self.link.offer_labelled(received.frame, label, stamp);
            self.note_drops(recorder);
        } else {
            recorder.dropped(label.flow, label.size, DropCause::Refused);
        }
        reply
    }

    /// Applies the rules: whether the packet, or the one that they have put in its place, passes, and their reply.
    fn judge(&mut self, frame: &mut Frame, label: &mut Label, stamp: Time) -> (bool, Reply) {
        let Some(rules) = &mut self.rules else { return (true, None) };
        match rules.pass(Direction::Outbound, &mut frame.packet, stamp) {
            // Rules alone neither hairpin nor hold.
            Action::Forward | Action::Hairpin => (true, None),
            Action::Drop | Action::Held => (false, None),
            Action::Reply(reply) => (false, Some(reply)),
            Action::Reset(pair) => {
                frame.packet.clear();
                frame.packet.extend_from_slice(&pair.to_destination);
                // In the flow of the packet that it replaces.
                let reset = self.flows.label(&Classification::of(&frame.packet));
                *label = Label { flow: label.flow, host: label.host, ..reset };
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
            recorder.marked(delivery.label.flow, delivery.label.size);
        }
        Some(delivery)
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        self.link.next_event()
    }

    /// No packet, and no reply to one, that arrives at `arrival` or later is due before this.
    pub(super) fn earliest_due(&self, arrival: Time) -> Time {
        // The rules reply at once.
        if self.rules.is_some() { arrival } else { self.link.earliest_due(arrival) }
    }

    /// Goes on with other settings from `now` on. What has not changed keeps its state.
    pub(super) fn set(
        &mut self,
        config: DirectionConfig,
        now: Time,
        recorder: &mut Recorder,
    ) -> Result<(), EmulatorError> {
        if config.rules != self.config.rules {
            self.rules = config.middlebox()?;
        }
        if config.queue != self.config.queue {
            self.link.replace_queue(&config.queue, now);
        }
        if config.link != self.config.link {
            if config.link.medium != self.config.link.medium {
                self.medium_since = now;
            }
            self.link.reconfigure(config.link.clone().starting_at(self.medium_since), now);
        }
        self.config = config;
        self.note_drops(recorder);
        Ok(())
    }

    fn note_drops(&mut self, recorder: &mut Recorder) {
        for entry in self.link.ledger().entries() {
            if let Fate::Dropped(_, cause) = entry.fate {
                recorder.dropped(entry.flow, entry.size, cause);
            }
        }
        self.link.ledger_mut().forget_before(Time::MAX);
    }
}

#[cfg(test)]
mod tests;
