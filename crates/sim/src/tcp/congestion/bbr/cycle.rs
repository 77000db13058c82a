use kumade_units::{Span, Time};

/// Ask for a quarter more, give that back, then keep to the bandwidth.
const PACING_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// The cycle of gains by which BBR looks for more bandwidth and leaves room for others.
#[derive(Debug, Clone)]
pub(super) struct GainCycle {
    phase: usize,
    phase_began: Time,
}

/// What decides whether a phase is over: segments in flight, and how many there ought to be at most and at least.
pub(super) struct InFlightBounds {
    pub(super) segments: u32,
    pub(super) max_segments: u32,
    pub(super) min_segments: u32,
}

impl GainCycle {
    /// Begins in any phase but that of giving back. Which, Linux leaves to chance so that flows do not cycle together;
    /// here it follows from the instant, which differs between flows and is the same in each run.
    pub(super) fn begin(now: Time) -> Self {
        let mixed = (now.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let phase = (8 - mixed % 7) as usize % PACING_GAINS.len();
        GainCycle { phase, phase_began: now }
    }

    pub(super) fn gain(&self) -> f64 {
        PACING_GAINS[self.phase]
    }

    /// Whether it asks for more.
    pub(super) fn is_probing(&self) -> bool {
        self.phase == 0
    }

    /// Goes to the next phase if this one has lasted a round trip and, when it asks for more, has got as much in flight
    /// or lost some; one that gives back ends as soon as that is done.
    pub(super) fn advance(&mut self, now: Time, round_trip: Span, lost: bool, in_flight: &InFlightBounds) {
        let lasted = now - self.phase_began > round_trip;
        let over = match self.phase {
            0 => lasted && (lost || in_flight.segments >= in_flight.max_segments),
            1 => lasted || in_flight.segments <= in_flight.min_segments,
            _ => lasted,
        };
        if over {
            self.phase = (self.phase + 1) % PACING_GAINS.len();
            self.phase_began = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Span = Span::from_millis(20);

    fn after(cycle: &mut GainCycle, waited: Span, segments: u32, lost: bool) -> f64 {
        let now = cycle.phase_began + waited;
        cycle.advance(now, ROUND_TRIP, lost, &InFlightBounds { segments, max_segments: 125, min_segments: 100 });
        cycle.gain()
    }

    #[test]
    fn asks_gives_back_and_keeps_for_six_round_trips() {
        let mut cycle = GainCycle { phase: 0, phase_began: Time::ZERO };
        let long = ROUND_TRIP + Span::from_nanos(1);
        assert_eq!(after(&mut cycle, long, 124, false), 1.25, "not enough in flight yet");
        assert_eq!(after(&mut cycle, ROUND_TRIP, 125, false), 1.25, "not long enough yet");
        assert_eq!(after(&mut cycle, long, 125, false), 0.75);
        assert_eq!(after(&mut cycle, Span::from_millis(1), 101, false), 0.75);
        assert_eq!(after(&mut cycle, Span::from_millis(1), 100, false), 1.0);
        for _ in 0..5 {
            assert_eq!(after(&mut cycle, long, 0, false), 1.0);
        }
        assert_eq!(after(&mut cycle, long, 0, false), 1.25);
        assert_eq!(after(&mut cycle, long, 110, true), 0.75, "it lost some: there is no more to get");
    }

    #[test]
    fn begins_anywhere_but_with_giving_back() {
        let mut seen = [0; 8];
        for millis in 0..700 {
            seen[GainCycle::begin(Time::ZERO + Span::from_millis(millis)).phase] += 1;
        }
        assert_eq!(seen[1], 0);
        let others = seen.iter().enumerate().filter(|(phase, _)| *phase != 1);
        assert!(others.clone().all(|(_, count)| (50..150).contains(count)), "{seen:?}");
    }
}
