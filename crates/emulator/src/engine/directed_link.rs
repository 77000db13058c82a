use crate::config::DirectionConfig;
use crate::error::EmulatorError;
use crate::frame::{ClassifiedFrame, Frame};
use crate::statistics::{DropCause, Recorder};
use kumade_link::{Delivery, Label, Link, PacketOutcome, Recording, invert_bit};
use kumade_middlebox::{Direction, Middlebox, PacketAction};
use kumade_packet::{Classification, ecn};
use kumade_packet_loop::FlowHasher;
use kumade_units::Time;

/// One direction: the filter rules and the link behind them.
pub(super) struct DirectedLink {
    config: DirectionConfig,
    link: Link<Frame>,
    /// When the medium was set: a recorded trace begins then.
    medium_start: Time,
    rules: Option<Middlebox>,
    flow_hasher: FlowHasher,
}

/// A packet to be sent back to where another one came from.
pub(super) type ReplyPacket = Option<Vec<u8>>;

impl DirectedLink {
    pub(super) fn new(config: DirectionConfig, now: Time) -> Result<Self, EmulatorError> {
        let mut link = Link::with_queue(config.link.clone().starting_at(now), &config.queue);
        link.bound_memory(Frame::heap_bytes);
        let rules = config.middlebox()?;
        let mut directed = DirectedLink { config, link, medium_start: now, rules, flow_hasher: FlowHasher::new() };
        directed.link.ledger_mut().record(Recording::Drops);
        Ok(directed)
    }

    /// A packet has arrived. The rules may reply to it.
    pub(super) fn offer(&mut self, mut received: ClassifiedFrame, stamp: Time, recorder: &mut Recorder) -> ReplyPacket {
        let mut label = self.flow_hasher.attributes_of_both_ends(&received.classification);
        let (mut passes, mut reply) = (true, None);
        match &received.classification.selector {
            Some(selector) => {
                if recorder.record_offered(label.flow, label.size) {
                    recorder.set_flow_key(label.flow, selector.flow_key());
                }
                (passes, reply) = self.apply_rules(&mut received.frame, &mut label, stamp);
            }
            None => {
                // Addresses and protocol.
                label.flow = self.flow_hasher.hash_flow(&received.frame.link_header[..]);
                recorder.record_offered(label.flow, label.size);
            }
        }
        if passes {
            // What the link drops is in its ledger.
            let _ = self.link.offer_labelled(received.frame, label, stamp);
            self.record_drops(recorder);
        } else {
            recorder.record_dropped(label.flow, label.size, DropCause::FilteredByRule);
        }
        reply
    }

    /// Applies the rules: whether the packet, or the one that they have put in its place, passes, and their reply.
    fn apply_rules(&mut self, frame: &mut Frame, label: &mut Label, stamp: Time) -> (bool, ReplyPacket) {
        let Some(rules) = &mut self.rules else { return (true, None) };
        match rules.process_packet(Direction::Outbound, &mut frame.packet, stamp) {
            // Rules alone neither hairpin nor hold.
            PacketAction::Forward | PacketAction::Hairpin => (true, None),
            PacketAction::Drop | PacketAction::Hold => (false, None),
            PacketAction::Reply(reply) => (false, Some(reply)),
            PacketAction::Reset(pair) => {
                frame.packet.clear();
                frame.packet.extend_from_slice(&pair.to_destination);
                // In the flow of the packet that it replaces.
                let reset = self.flow_hasher.attributes_of_both_ends(&Classification::from_packet(&frame.packet));
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
            self.record_drops(recorder);
        }
        recorder.set_queued_bytes(self.link.queued_bytes());
    }

    /// The next packet that is due, marked where the queue wants that, and with a bit inverted where settings do.
    pub(super) fn pop_due(&mut self, now: Time, recorder: &mut Recorder) -> Option<Delivery<Frame>> {
        let mut delivery = self.link.pop_due(now)?;
        if delivery.is_marked && ecn::mark(&mut delivery.packet.packet) {
            recorder.record_marked(delivery.label.flow, delivery.label.size);
        }
        // After all that would make its checksum right again.
        if let Some(bit) = delivery.inverted_bit {
            invert_bit(&mut delivery.packet.packet, bit);
            recorder.record_corrupted(delivery.label.size);
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
    pub(super) fn reconfigure(
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
                self.medium_start = now;
            }
            self.link.reconfigure(config.link.clone().starting_at(self.medium_start), now);
        }
        self.config = config;
        self.record_drops(recorder);
        Ok(())
    }

    fn record_drops(&mut self, recorder: &mut Recorder) {
        for entry in self.link.ledger().entries() {
            if let PacketOutcome::Dropped(_, cause) = entry.outcome {
                recorder.record_dropped(entry.flow, entry.size, cause);
            }
        }
        self.link.ledger_mut().forget_before(Time::MAX);
    }
}

#[cfg(test)]
mod tests;
