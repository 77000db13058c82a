use super::{Link, tail_drop};
use crate::LinkConfig;
use crate::queue::{Queue, QueueConfig, QueueDiscipline};
use units::ConfigError;
use units::Time;

impl<P> Link<P> {
    /// Goes on with other settings from `now` on, exactly; nothing that is on the link is lost over it unless it finds no
    /// room in a smaller queue. `now` is what [`Link::advance`] would be called with.
    ///
    /// - A packet in service at a rate is served on at the new one: what is left of it, to the bit. On a token bucket, a
    ///   trace or a wireless medium, before or after, the service under way ends as it would have.
    /// - A new delay is that of packets which depart from now on. It never makes a packet overtake another.
    /// - Jitter, loss, reordering and duplication are new for packets whose service begins from now on.
    /// - A new [`LinkConfig::queue_bytes`] is as [`Link::replace_queue`]; a queue given by that or by
    ///   [`Link::with_queue`] stays as it is.
    /// - The limit of bytes in flight is that of packets whose service begins from now on.
    /// - The seed stays what it was.
    ///
    /// # Errors
    /// What no link can have; nothing changes then.
    pub fn reconfigure(&mut self, config: LinkConfig, now: Time) -> Result<(), ConfigError> {
        config.check()?;
        self.advance(now);
        let now = self.now;
        let resized = config.queue_bytes != self.config.queue_bytes && !self.queue_given;
        self.config = LinkConfig { seed: self.config.seed, ..config };
        self.flight.set(&self.config);
        self.reschedule(now);
        if resized {
            self.carry_over(&tail_drop(&self.config))?;
        }
        self.serve_until(now);
        Ok(())
    }

    /// Lets another discipline, or one of another limit, decide from `now` on. What waits goes over to it in the order
    /// in which it would have been served, with the times of its arrival; what the old discipline drops when it is asked
    /// for everything now, and what the new one does not take, is dropped.
    ///
    /// # Errors
    /// What no discipline can have; nothing changes then.
    pub fn replace_queue(&mut self, queue: &QueueConfig, now: Time) -> Result<(), ConfigError> {
        self.advance(now);
        self.carry_over(queue)?;
        self.queue_given = true;
        Ok(())
    }

    fn reschedule(&mut self, now: Time) {
        let moved = self.server.switch(&self.config, now);
        let Some((noted, departure)) = moved else { return };
        self.ledger.departs_instead(noted, departure);
        if let Some(launched) = &mut self.launched {
            self.flight.revise(launched, departure, &self.config);
        }
    }

    fn carry_over(&mut self, config: &QueueConfig) -> Result<(), ConfigError> {
        let mut next = Queue::new(config, self.config.seed)?;
        while let Some(packet) = self.queue.dequeue(self.now, &mut self.drops) {
            // What is not taken is among the drops.
            let _ = next.enqueue(packet, &mut self.drops);
        }
        self.queue = next;
        self.note_drops(self.now);
        Ok(())
    }
}
