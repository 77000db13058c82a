use super::buffer::Buffer;
use super::heavy::Detector;
use super::red::Average;
use super::{Dropped, Heavy, Limit, Preference, QueueDiscipline, Queued, RedConfig};
use crate::{ConfigError, DropCause};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use units::Time;

/// The settings of [`ActiveDropping`].
#[derive(Debug, Clone, PartialEq)]
pub struct ActiveDroppingConfig {
    /// The RED beneath.
    pub red: RedConfig,
    /// Which flows are dropped by preference, …
    pub heavy: Heavy,
    /// … and how strongly.
    pub preference: Preference,
}

/// Active Packet Dropping (Akiyama, Koza, Yamaguchi 2014): RED whose probability of a drop is multiplied by one factor
/// for heavy flows and by another for the rest. Where RED drops everything, it does too.
#[derive(Debug)]
pub struct ActiveDropping<P> {
    buffer: Buffer<P>,
    average: Average,
    detector: Detector,
    rng: Pcg64Mcg,
}

impl<P> ActiveDropping<P> {
    pub(super) fn new(limit: Limit, config: &ActiveDroppingConfig, seed: u64) -> Result<Self, ConfigError> {
        Ok(ActiveDropping {
            buffer: Buffer::new(limit),
            average: Average::new(config.red)?,
            detector: Detector::new(&config.heavy, config.preference, seed)?,
            rng: Pcg64Mcg::seed_from_u64(seed),
        })
    }
}

impl<P> QueueDiscipline<P> for ActiveDropping<P> {
    fn enqueue(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        self.detector.observe(packet.flow);
        self.average.observe(self.buffer.bytes(), packet.arrival);
        let verdict = self.average.judge(&mut self.rng, self.detector.probability(packet.flow));
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
