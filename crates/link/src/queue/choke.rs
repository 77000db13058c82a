use super::buffer::Buffer;
use super::red::Average;
use super::{Dropped, Limit, QueueDiscipline, Queued, RedConfig, turn_away};
use crate::{ConfigError, DropCause};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use units::Time;

/// CHOKe (Pan, Prabhakar, Psounis 2000): while the average length is above RED's minimum, an arriving packet is
/// compared with one drawn from the queue. If both are of the same flow, both are dropped, else RED decides. A flow
/// that fills the queue meets itself often; no state of flows is kept.
#[derive(Debug)]
pub struct Choke<P> {
    buffer: Buffer<P>,
    average: Average,
    rng: Pcg64Mcg,
}

impl<P> Choke<P> {
    pub(super) fn new(limit: Limit, config: RedConfig, seed: u64) -> Result<Self, ConfigError> {
        let average = Average::new(config)?;
        Ok(Choke { buffer: Buffer::new(limit), average, rng: Pcg64Mcg::seed_from_u64(seed) })
    }

    /// The place in the queue of a random packet, if it is of the same flow.
    fn draw_match(&mut self, flow: u64) -> Option<usize> {
        if self.average.is_below_minimum() || self.buffer.len() == 0 {
            return None;
        }
        let place = self.rng.random_range(0..self.buffer.len());
        (self.buffer.flow_at(place) == Some(flow)).then_some(place)
    }
}

impl<P> QueueDiscipline<P> for Choke<P> {
    fn enqueue(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        let now = packet.arrival;
        self.average.observe(self.buffer.bytes(), now);
        if let Some(drawn) = self.draw_match(packet.flow).and_then(|place| self.buffer.remove(place)) {
            self.average.left(self.buffer.bytes(), now);
            drops.push(Dropped { packet: drawn, cause: DropCause::Managed });
            return turn_away(packet, DropCause::Managed, drops);
        }
        let verdict = self.average.judge(&mut self.rng, 1.0);
        self.average.carry_out(verdict, packet, &mut self.buffer, drops)
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        let packet = self.buffer.pop();
        self.average.left(self.buffer.bytes(), now);
        packet
    }

    fn packets(&self) -> usize {
        self.buffer.len()
    }

    fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}
