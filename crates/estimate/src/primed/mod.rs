//! The default method: primed trains.
//!
//! A short back-to-back burst, the *prime*, fills the bottleneck's queue a little; the *body* then goes on at a
//! constant rate near the available bandwidth. As long as the queue does not run empty, every bit of the link's
//! capacity is spent on the train or on others, so that over any stretch of the body
//!
//! ```text
//! available · Δt = what the train carried − capacity · Δ(one-way delay)
//! ```
//!
//! exactly, however bursty the others are. The second term is small because the body's rate is kept near the
//! available bandwidth: an error in the capacity, which the prime's dispersion gives, hardly enters. The prime also
//! uses up a token bucket, which would hide the first excess. One train is right about its own milliseconds; the
//! mean of many, and their scatter, tell about the measurement's whole time.

mod control;
mod reading;
mod summary;

use crate::stats::{median, standard_deviation};
use crate::{Method, Outcome, Rejection, Step, Train, TrainRecord};
use control::Shape;
use reading::{Dispersion, Epoch, Packets, Reading};
use std::collections::BTreeMap;
use units::{Rate, Span, Time};

/// How much a measurement may cost, and when it knows enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrimedConfig {
    /// The largest packet that the transport carries whole, in bytes.
    pub max_packet: u32,
    /// IP bytes to send at most.
    pub budget_bytes: u64,
    /// How long to go on. On paths so slow that it does not suffice for [`LEAST_TRAINS`] trains, up to five times as
    /// long.
    pub budget_time: Span,
    /// Half the interval's width at which the value is known well enough, as a part of the value.
    pub precision: f64,
    /// For the waits between trains, which are random so that periodic traffic is not met in step.
    pub seed: u64,
}

/// No value is given from fewer trains.
pub const LEAST_TRAINS: usize = 3;

impl PrimedConfig {
    /// Two megabytes, two seconds, one percent.
    pub fn new(max_packet: u32) -> Self {
        PrimedConfig {
            max_packet,
            budget_bytes: 2_000_000,
            budget_time: Span::from_secs(2),
            precision: 0.01,
            seed: 0x6b75_6d61_6465,
        }
    }
}

/// See the [module's](self) idea.
#[derive(Debug)]
pub struct Primed {
    config: PrimedConfig,
    started: Option<Time>,
    sent: Option<Sent>,
    scouted: Option<f64>,
    epoch: Option<Epoch>,
    trains: Vec<Packets>,
    rejected: BTreeMap<Rejection, u32>,
    failures_in_row: u32,
    bytes: u64,
    knowledge: Knowledge,
    random: u64,
}

/// The train on its way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    shape: Shape,
}

/// All trains read with what is now known of the path. Read anew whenever a train is added, since capacity and floor
/// then are known better.
#[derive(Debug, Default)]
struct Knowledge {
    capacity: Option<f64>,
    /// How far the capacities that single primes showed lie apart: their standard deviation.
    capacity_scatter: f64,
    /// See [`Dispersion::openness`].
    prime_openness: f64,
    readings: Vec<Reading>,
}

impl Primed {
    /// Starts knowing nothing of the path.
    pub fn new(config: PrimedConfig) -> Self {
        Primed {
            config,
            started: None,
            sent: None,
            scouted: None,
            epoch: None,
            trains: Vec::new(),
            rejected: BTreeMap::new(),
            failures_in_row: 0,
            bytes: 0,
            knowledge: Knowledge::default(),
            random: config.seed,
        }
    }

    fn read_all(&mut self) {
        let shown: Vec<Dispersion> = self.trains.iter().filter_map(Packets::dispersion).collect();
        let rates: Vec<f64> = shown.iter().map(|d| d.rate).collect();
        let fastest = self.trains.iter().map(Packets::body_rate).fold(self.scouted.unwrap_or(0.0), f64::max);
        let capacity = median(&rates).unwrap_or(fastest);
        let floor = reading::delay_floor(&self.trains, capacity);
        self.knowledge = Knowledge {
            capacity: Some(capacity),
            capacity_scatter: standard_deviation(&rates),
            prime_openness: shown.iter().map(|d| d.openness).fold(0.0, f64::max),
            readings: self.trains.iter().filter_map(|t| t.reading(capacity, floor)).collect(),
        };
    }

    fn reject(&mut self, why: Rejection) {
        *self.rejected.entry(why).or_default() += 1;
        self.failures_in_row += 1;
    }

    fn take(&mut self, record: &TrainRecord, shape: Shape) -> Result<(), Rejection> {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => *self.epoch.insert(Epoch::of(record).ok_or(Rejection::PacketsMissing)?),
        };
        match shape {
            Shape::Scout => self.scouted = Some(control::scouted_rate(record).ok_or(Rejection::PacketsMissing)?),
            Shape::Primed { prime } => {
                let packets = Packets::new(record, prime as usize, epoch)?;
                if self.knowledge.capacity.is_some_and(|capacity| packets.receiver_stalled(capacity)) {
                    return Err(Rejection::ReceiverStalled);
                }
                self.trains.push(packets);
                self.read_all();
            }
        }
        Ok(())
    }

    /// A number from 0 to 1 (SplitMix64).
    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn outcome(&self, now: Time) -> Outcome {
        let elapsed = now - self.started.unwrap_or(now);
        summary::outcome(self, elapsed)
    }
}

impl Method for Primed {
    fn next(&mut self, now: Time) -> Step {
        let started = *self.started.get_or_insert(now);
        if self.sent.take().is_some() {
            self.reject(Rejection::PacketsMissing);
        }
        if summary::enough(self, now - started) {
            return Step::Done(self.outcome(now));
        }
        let (shape, train): (Shape, Train) = control::plan(self);
        let wait = control::wait(self);
        let spent = self.bytes + train.bytes();
        let too_dear = spent > self.config.budget_bytes;
        let too_long = now - started + wait + train.duration() > summary::time_limit(self);
        if too_dear || too_long {
            return Step::Done(self.outcome(now));
        }
        self.bytes = spent;
        self.sent = Some(Sent { shape });
        Step::Send { wait, train }
    }

    fn record(&mut self, record: &TrainRecord) {
        let Some(Sent { shape }) = self.sent.take() else { return };
        match self.take(record, shape) {
            Ok(()) => self.failures_in_row = 0,
            Err(why) => self.reject(why),
        }
    }

    fn so_far(&self) -> Option<Rate> {
        let used = summary::used(self);
        (!used.is_empty()).then(|| Rate::from_f64(summary::value(&used, self.knowledge.capacity.unwrap_or(0.0))))
    }
}
impl Primed {
    #[allow(missing_docs)]
    pub fn debug(&self) -> String {
        format!(
            "C {:?} last {:?} rej {:?}",
            self.knowledge.capacity.map(|c| c / 1e6),
            self.knowledge.readings.last(),
            self.rejected
        )
    }
}
