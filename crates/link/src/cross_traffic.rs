use crate::exact_time::ExactTime;
use crate::random::exponential;
use kumade_units::ConfigError;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// One packet of cross traffic reaching a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossArrival {
    /// When it arrives.
    pub time: Time,
    /// IP packet size in bytes.
    pub size: u32,
}

/// What a source of cross traffic sends.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossConfig {
    /// The pattern.
    pub kind: CrossKind,
    /// When it begins to send.
    pub start: Time,
    /// The phase at `start`, in `[0, 1)`, of the interval between packets ([`CrossKind::Constant`], [`CrossKind::Jittered`]) or
    /// of an on and an off period ([`PeriodLengths::Fixed`]). Other patterns have no cycle and begin in their steady state.
    pub phase: f64,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// Patterns of cross traffic; rates count IP packets. A rate of zero sends nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum CrossKind {
    /// Packets of one size at equal intervals.
    Constant {
        /// The rate, exact in the long run.
        rate: Rate,
        /// Bytes of each packet.
        size: u32,
    },
    /// Packets of one size at intervals that differ from the mean at random, uniformly and independently of each other: nearly
    /// constant, yet without a phase that another periodic stream could keep step with.
    Jittered {
        /// The mean rate.
        rate: Rate,
        /// Bytes of each packet.
        size: u32,
        /// By which part of the mean an interval is shorter or longer at most, from 0 to 1.
        jitter: f64,
    },
    /// A Poisson process: exponential intervals, independent sizes.
    Poisson {
        /// The mean rate.
        rate: Rate,
        /// The packets' sizes.
        sizes: SizeMix,
    },
    /// Constant rate in on periods, silence in off periods; the mean rate is `rate × on / (on + off)`.
    OnOff {
        /// The rate while on.
        rate: Rate,
        /// Bytes of each packet.
        size: u32,
        /// Mean length of an on period, at least one packet's time at `rate`.
        on: Span,
        /// Mean length of an off period.
        off: Span,
        /// How the lengths vary.
        periods: PeriodLengths,
    },
}

/// How the lengths of on and off periods vary about their means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeriodLengths {
    /// They don't.
    Fixed,
    /// Exponentially.
    Exponential,
}

/// Packet sizes with weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeMix(Vec<(u32, u32)>);

/// A source of cross traffic: an endless iterator over its packets in order of time.
#[derive(Debug, Clone)]
pub struct CrossTraffic {
    rng: Pcg64Mcg,
    pattern: SourceState,
}

#[derive(Debug, Clone)]
enum SourceState {
    Silent,
    Constant { next: ExactTime, rate: Rate, size: u32 },
    Jittered { next: Time, fraction: f64, mean_nanos: f64, jitter: f64, size: u32 },
    Poisson { next: Time, fraction: f64, mean_nanos: f64, sizes: SizeMix },
    OnOff(OnOff),
}

/// The packets are at equal intervals on a clock that stands still in off periods; so no rate is lost at their edges.
#[derive(Debug, Clone)]
struct OnOff {
    next_packet: Time,
    /// The clock of on periods, and what is left of the present one.
    on_time_clock: ExactTime,
    period_left: Span,
    rate: Rate,
    size: u32,
    on: Span,
    off: Span,
    periods: PeriodLengths,
}

impl SizeMix {
    /// All packets of one size.
    pub fn fixed(size: u32) -> Self {
        SizeMix(vec![(size, 1)])
    }

    /// Pairs of size and weight: a packet has a size with the probability of its weight over the sum of weights.
    pub fn weighted(sizes: impl IntoIterator<Item = (u32, u32)>) -> Self {
        SizeMix(sizes.into_iter().collect())
    }

    /// The simple Internet mix: 7 packets of 40 bytes to 4 of 576 and 1 of 1500.
    pub fn imix() -> Self {
        SizeMix::weighted([(40, 7), (576, 4), (1500, 1)])
    }

    /// Mean size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let bytes: f64 = self.0.iter().map(|(size, weight)| f64::from(*size) * f64::from(*weight)).sum();
        bytes / self.total_weight() as f64
    }

    fn total_weight(&self) -> u64 {
        self.0.iter().map(|(_, weight)| u64::from(*weight)).sum()
    }

    fn draw_size(&self, rng: &mut Pcg64Mcg) -> u32 {
        let [first, rest @ ..] = self.0.as_slice() else { return 0 };
        if rest.is_empty() {
            return first.0;
        }
        let mut ticket = rng.random_range(0..self.total_weight());
        for (size, weight) in &self.0 {
            match ticket.checked_sub(u64::from(*weight)) {
                Some(left) => ticket = left,
                None => return *size,
            }
        }
        first.0
    }
}

impl CrossTraffic {
    /// A source at its start.
    ///
    /// # Errors
    /// A value is out of range; the error names it and says what to give instead.
    pub fn new(config: CrossConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let CrossConfig { kind, start, phase, seed } = config;
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let pattern = match kind {
            CrossKind::Constant { rate: Rate::ZERO, .. }
            | CrossKind::Jittered { rate: Rate::ZERO, .. }
            | CrossKind::Poisson { rate: Rate::ZERO, .. }
            | CrossKind::OnOff { rate: Rate::ZERO, .. } => SourceState::Silent,
            CrossKind::Constant { rate, size } => SourceState::Constant {
                next: ExactTime::from_time(start + first_interval(rate, size, phase)),
                rate,
                size,
            },
            CrossKind::Jittered { rate, size, jitter } => {
                let mean_nanos = f64::from(size) * 8e9 / rate.as_f64();
                SourceState::Jittered {
                    next: start + first_interval(rate, size, phase),
                    fraction: 0.0,
                    mean_nanos,
                    jitter,
                    size,
                }
            }
            CrossKind::Poisson { rate, sizes } => {
                let mean_nanos = sizes.mean_bytes() * 8e9 / rate.as_f64();
                let mut pattern = SourceState::Poisson { next: start, fraction: 0.0, mean_nanos, sizes };
                // The wait for the first packet is exponential as well; the one it leads to is not sent.
                pattern.next_arrival(&mut rng);
                pattern
            }
            CrossKind::OnOff { rate, size, on, off, periods } => {
                let clock = ExactTime::from_time(Time::ZERO);
                let mut source =
                    OnOff { next_packet: start, on_time_clock: clock, period_left: on, rate, size, on, off, periods };
                source.begin_period(phase, &mut rng);
                SourceState::OnOff(source)
            }
        };
        Ok(CrossTraffic { rng, pattern })
    }
}

impl Iterator for CrossTraffic {
    type Item = CrossArrival;

    fn next(&mut self) -> Option<CrossArrival> {
        // The end of representable time ends the traffic too, else it would repeat that instant for ever.
        self.pattern.next_arrival(&mut self.rng).filter(|arrival| arrival.time < Time::MAX)
    }
}

impl SourceState {
    fn next_arrival(&mut self, rng: &mut Pcg64Mcg) -> Option<CrossArrival> {
        match self {
            SourceState::Silent => None,
            SourceState::Constant { next, rate, size } => {
                let arrival = CrossArrival { time: next.floor(), size: *size };
                *next = next.after_bytes(*size, *rate);
                Some(arrival)
            }
            SourceState::Jittered { next, fraction, mean_nanos, jitter, size } => {
                let arrival = CrossArrival { time: *next, size: *size };
                advance_time(next, fraction, *mean_nanos * (1.0 + *jitter * rng.random_range(-1.0..1.0)));
                Some(arrival)
            }
            SourceState::Poisson { next, fraction, mean_nanos, sizes } => {
                let arrival = CrossArrival { time: *next, size: sizes.draw_size(rng) };
                advance_time(next, fraction, exponential(rng) * *mean_nanos);
                Some(arrival)
            }
            SourceState::OnOff(source) => Some(source.next_arrival(rng)),
        }
    }
}

impl OnOff {
    /// Moves to where in its cycle the source is at its start.
    fn begin_period(&mut self, phase: f64, rng: &mut Pcg64Mcg) {
        let passed = match self.periods {
            PeriodLengths::Fixed => scale_span(self.on + self.off, phase),
            // On with the probability on / (on + off); what is left of an exponential period is as long as a new one.
            PeriodLengths::Exponential => scale_span(self.on + self.off, rng.random()),
        };
        if passed < self.on {
            self.period_left =
                if self.periods == PeriodLengths::Fixed { self.on - passed } else { self.draw_period(self.on, rng) };
        } else {
            let silence = if self.periods == PeriodLengths::Fixed {
                self.on + self.off - passed
            } else {
                self.draw_period(self.off, rng)
            };
            self.next_packet += silence;
            self.period_left = self.draw_period(self.on, rng);
        }
    }

    fn next_arrival(&mut self, rng: &mut Pcg64Mcg) -> CrossArrival {
        let arrival = CrossArrival { time: self.next_packet, size: self.size };
        let after = self.on_time_clock.after_bytes(self.size, self.rate);
        let mut gap = after.floor() - self.on_time_clock.floor();
        self.on_time_clock = after;
        while gap >= self.period_left {
            gap -= self.period_left;
            self.next_packet = self.next_packet + self.period_left + self.draw_period(self.off, rng);
            self.period_left = self.draw_period(self.on, rng);
        }
        self.period_left -= gap;
        self.next_packet += gap;
        arrival
    }

    fn draw_period(&self, mean: Span, rng: &mut Pcg64Mcg) -> Span {
        match self.periods {
            PeriodLengths::Fixed => mean,
            PeriodLengths::Exponential => scale_span(mean, exponential(rng)),
        }
    }
}

impl CrossConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("cross traffic");
        if !(0.0..1.0).contains(&self.phase) {
            return Err(error("phase", self.phase.to_string(), "which is no part of a cycle", "give 0 up to below 1"));
        }
        let (sizes, rate): (&[(u32, u32)], _) = match &self.kind {
            CrossKind::Constant { size, rate }
            | CrossKind::Jittered { size, rate, .. }
            | CrossKind::OnOff { size, rate, .. } => (&[(*size, 1)], *rate),
            CrossKind::Poisson { sizes, rate } => (&sizes.0, *rate),
        };
        if sizes.iter().all(|(_, weight)| *weight == 0) {
            let problem = "which leaves no size to choose";
            return Err(error("size mix", format!("{sizes:?}"), problem, "give a size a weight above 0"));
        }
        if sizes.iter().any(|(size, _)| *size == 0) {
            let remedy = "give at least 1 byte (an IPv4 header alone is 20)";
            return Err(error("packet size", "0".into(), "which takes no time to send", remedy));
        }
        if let CrossKind::Jittered { jitter, .. } = self.kind
            && !(0.0..=1.0).contains(&jitter)
        {
            let problem = "which is no part of an interval";
            return Err(error("jitter of intervals", jitter.to_string(), problem, "give a part from 0 to 1"));
        }
        if let CrossKind::OnOff { on, off, size, .. } = self.kind {
            if off < Span::ZERO {
                return Err(error("off period", off.to_string(), "which is negative", "give 0 or more"));
            }
            let packet_time = rate.time_for(size.into());
            if on <= Span::ZERO || (rate > Rate::ZERO && on < packet_time) {
                let remedy = "make it longer, the rate higher or the packets smaller";
                return Err(error("on period", on.to_string(), "too short for one packet at this rate", remedy));
            }
        }
        Ok(())
    }
}

/// From the start to the first packet of a source in this phase.
fn first_interval(rate: Rate, size: u32, phase: f64) -> Span {
    let passed = scale_span(rate.time_for(size.into()), phase);
    if passed > Span::ZERO { rate.time_for(size.into()) - passed } else { Span::ZERO }
}

/// Moves on by so many nanoseconds; the part of one that is left counts the next time.
fn advance_time(next: &mut Time, fraction: &mut f64, nanos: f64) {
    let gap = nanos + *fraction;
    *fraction = gap.fract();
    *next += Span::from_nanos(gap as i64);
}

fn scale_span(span: Span, factor: f64) -> Span {
    Span::from_nanos((span.as_nanos() as f64 * factor) as i64)
}

#[cfg(test)]
mod tests;
