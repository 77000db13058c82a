use super::{Link, new_policing, tail_drop_config};
use crate::queue::{Queue, QueueConfig, QueueDiscipline};
use crate::{LinkConfig, Valid};
use kumade_units::Time;
use std::mem;

impl<P> Link<P> {
    /// Applies other settings from exactly `now` on, the time with which [`Link::advance`] would be called. No packet is
    /// lost because of it, except those that exceed a smaller queue.
    ///
    /// - The rest of a packet in transmission at a rate is transmitted at the new rate, to the bit. With a token bucket, a
    ///   trace or a wireless medium, before or after, the transmission in progress ends as it would have.
    /// - A new delay holds for packets that depart from now on. It never makes a packet overtake another, unless jitter does.
    /// - Jitter, loss, reordering, duplication, corruption and the limit of bytes in flight are new for packets whose transmission
    ///   begins from now on.
    /// - A new policer's bucket is full; one that stays the same keeps its level.
    /// - A new [`LinkConfig::queue_bytes`] acts as [`Link::replace_queue`]; a queue set by that or by [`Link::with_queue`]
    ///   stays.
    /// - The seed stays.
    pub fn reconfigure(&mut self, config: Valid<LinkConfig>, now: Time) {
        self.advance(now);
        let now = self.now;
        let resized = config.queue_bytes != self.config.queue_bytes && !self.has_own_queue;
        if config.policer != self.config.policer {
            self.policing = new_policing(&config, now);
        }
        let next = LinkConfig { seed: self.config.seed, ..config.0 };
        let before = mem::replace(&mut self.config, next);
        self.flight.apply_config(&self.config, &before);
        self.reschedule(now);
        if resized {
            self.transfer_packets(&tail_drop_config(&self.config));
        }
        self.serve_until(now);
    }

    /// Uses another queue discipline or limit from `now` on. Queued packets are moved to it in the order in which they
    /// would have been sent, with their arrival times. What the old discipline drops while all is dequeued, and what the
    /// new one does not accept, is dropped.
    pub fn replace_queue(&mut self, queue: &Valid<QueueConfig>, now: Time) {
        self.advance(now);
        self.transfer_packets(queue);
        self.has_own_queue = true;
    }

    fn reschedule(&mut self, now: Time) {
        let moved = self.server.switch_config(&self.config, now);
        let Some((noted, departure)) = moved else { return };
        self.ledger.revise_departure(noted, departure);
        if let Some(launched) = &mut self.last_launched {
            self.flight.revise_due_time(launched, departure, &self.config);
        }
    }

    fn transfer_packets(&mut self, config: &Valid<QueueConfig>) {
        let mut next = Queue::new(config, self.config.seed);
        while let Some(packet) = self.queue.dequeue(self.now, &mut self.drops) {
            // What is not taken is among the drops.
            let _ = next.enqueue(packet, &mut self.drops);
        }
        self.queue = next;
        self.record_drops(self.now);
    }
}
