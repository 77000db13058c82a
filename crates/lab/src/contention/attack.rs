//! Senders that take no notice of losses and marks.

use kumade_link::queue::Ecn;
use kumade_link::{CrossConfig, CrossKind, PeriodLengths};
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt;
use std::ops::Range;

/// A sender that competes with bulk transfers and follows no rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Attack {
    /// UDP in a pattern.
    Pulses(PulseTraffic),
    /// UDP in a pattern that each run draws anew: random on and off periods.
    RandomPulses,
    /// A TCP connection that is ECT(0) and never learns of marks; it reacts to losses.
    ConcealsMarks(CongestionControl),
}

/// UDP packets at a constant rate in on periods, nothing in off periods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PulseTraffic {
    /// The rate while on, counted in IP packets.
    pub rate: Rate,
    /// Mean length of an on period.
    pub on: Span,
    /// Mean length of an off period; zero sends all the time.
    pub off: Span,
    /// IP bytes of each packet.
    pub packet_bytes: u32,
    /// Whether the lengths of the periods are exponentially distributed; else they do not vary.
    pub has_random_periods: bool,
    /// What the packets say of ECN.
    pub ecn: Ecn,
}

/// What drawn patterns are made of: the rate in multiples of the bottleneck's, and milliseconds.
const RATE_RATIOS: Range<f64> = 0.5..10.0;
const ON_MILLIS: Range<f64> = 1.0..200.0;
const OFF_MILLIS: Range<f64> = 5.0..1000.0;
/// Ethernet's largest packets.
pub(crate) const FULL_PACKET_BYTES: u32 = 1500;

impl Attack {
    /// What is sent in a run with this seed, if it is UDP.
    pub(super) fn pulse_traffic(&self, bottleneck: Rate, seed: u64) -> Option<PulseTraffic> {
        match self {
            Attack::Pulses(pulses) => Some(*pulses),
            Attack::RandomPulses => Some(PulseTraffic::draw(bottleneck, &mut Pcg64Mcg::seed_from_u64(seed))),
            Attack::ConcealsMarks(_) => None,
        }
    }
}

impl PulseTraffic {
    /// A pattern with random periods, from anything that a host on an Ethernet of ten times the bottleneck's rate could send.
    /// Rate and periods are log-uniform.
    pub(super) fn draw(bottleneck: Rate, random: &mut Pcg64Mcg) -> Self {
        let mut draw = |range: Range<f64>| random.random_range(range.start.ln()..range.end.ln()).exp();
        PulseTraffic {
            rate: Rate::from_f64(bottleneck.as_f64() * draw(RATE_RATIOS)),
            on: Span::from_secs_f64(draw(ON_MILLIS) / 1e3),
            off: Span::from_secs_f64(draw(OFF_MILLIS) / 1e3),
            packet_bytes: FULL_PACKET_BYTES,
            has_random_periods: true,
            ecn: Ecn::NotEct,
        }
    }

    /// The rate in the long run.
    pub fn mean_rate(&self) -> Rate {
        let (on, off) = (self.on.as_secs_f64(), self.off.as_secs_f64());
        Rate::from_f64(self.rate.as_f64() * on / (on + off).max(f64::MIN_POSITIVE))
    }

    /// As a source of packets, at a random place of its cycle.
    pub(super) fn cross_traffic(&self, seed: u64) -> CrossConfig {
        let phase = Pcg64Mcg::seed_from_u64(seed).random::<f64>();
        let PulseTraffic { rate, on, off, packet_bytes: size, has_random_periods: random, .. } = *self;
        let periods = if random { PeriodLengths::Exponential } else { PeriodLengths::Fixed };
        let kind = match off {
            Span::ZERO => CrossKind::Constant { rate, size },
            // A period holds at least a packet.
            _ => CrossKind::OnOff { rate, size, on: on.max(rate.time_for(size.into())), off, periods },
        };
        CrossConfig { kind, start: Time::ZERO, phase, seed }
    }
}

impl fmt::Display for PulseTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rate)?;
        if self.off > Span::ZERO {
            let how = if self.has_random_periods { " (random)" } else { "" };
            write!(f, ", {} on, {} off{how}", self.on, self.off)?;
        }
        if self.packet_bytes != FULL_PACKET_BYTES {
            write!(f, ", {} bytes", self.packet_bytes)?;
        }
        f.write_str(describe_ecn(self.ecn))
    }
}

/// Behind what a sender does otherwise.
pub(super) fn describe_ecn(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "",
        Ecn::Ect0 => ", ECT(0)",
        Ecn::Ect1 => ", ECT(1)",
        Ecn::Ce => ", CE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PULSES: PulseTraffic = PulseTraffic {
        rate: Rate::from_mbit(1000),
        on: Span::from_millis(7),
        off: Span::from_millis(63),
        packet_bytes: 1500,
        has_random_periods: false,
        ecn: Ecn::NotEct,
    };

    #[test]
    fn a_pattern_sends_at_its_mean_rate() {
        assert_eq!(PULSES.mean_rate(), Rate::from_mbit(100));
        assert_eq!(PulseTraffic { off: Span::ZERO, ..PULSES }.mean_rate(), PULSES.rate);
        let end = Time::ZERO + Span::from_secs(7);
        let traffic = kumade_link::CrossTraffic::new(PULSES.cross_traffic(3)).unwrap();
        let bytes: u64 = traffic.take_while(|packet| packet.time < end).map(|packet| u64::from(packet.size)).sum();
        assert!((bytes as f64 * 8.0 / 7.0 / 100e6 - 1.0).abs() < 0.02, "{bytes}");
    }

    #[test]
    fn a_drawn_pattern_follows_from_its_seed() {
        let draw = |seed| Attack::RandomPulses.pulse_traffic(Rate::from_mbit(100), seed).unwrap();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_pattern_is_written_as_people_read_it() {
        assert_eq!(PULSES.to_string(), "1 Gbit/s, 7 ms on, 63 ms off");
        assert_eq!(PulseTraffic { off: Span::ZERO, ecn: Ecn::Ect0, ..PULSES }.to_string(), "1 Gbit/s, ECT(0)");
    }
}
