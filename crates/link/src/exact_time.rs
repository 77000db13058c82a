use kumade_units::{Rate, Time};

/// An instant with the part of a nanosecond that integer division would lose, so that the long-run rate is exact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExactTime {
    nanos: i64,
    /// Nanoseconds beyond `nanos`, in units of 1/rate; always less than one nanosecond.
    carry: u64,
}

impl ExactTime {
    pub(crate) fn from_time(time: Time) -> Self {
        ExactTime { nanos: time.as_nanos(), carry: 0 }
    }

    /// The first whole nanosecond that is not before this instant.
    pub(crate) fn ceil(self) -> Time {
        Time::from_nanos(self.nanos.saturating_add(i64::from(self.carry > 0)))
    }

    /// The last whole nanosecond that is not after this instant.
    pub(crate) fn floor(self) -> Time {
        Time::from_nanos(self.nanos)
    }

    /// This instant, or `time` if that is later.
    pub(crate) fn not_before(self, time: Time) -> Self {
        if time.as_nanos() > self.nanos { ExactTime::from_time(time) } else { self }
    }

    /// Later by what `rate` needs for `bytes`. The same, positive rate must be given throughout: `carry` counts in it.
    pub(crate) fn after_bytes(self, bytes: u32, rate: Rate) -> Self {
        let rate = rate.bits_per_second();
        let work = u64::from(bytes).checked_mul(8_000_000_000).and_then(|work| work.checked_add(self.carry));
        // 64 bits suffice for all but giant packets, and divide several times as fast.
        let Some(work) = work else {
            let work = u128::from(bytes) * 8_000_000_000 + u128::from(self.carry);
            return ExactTime::after_work(self.nanos, work, rate);
        };
        let nanos = i64::try_from(work / rate).unwrap_or(i64::MAX);
        ExactTime { nanos: self.nanos.saturating_add(nanos), carry: work % rate }
    }
}

impl ExactTime {
    /// Whole nanoseconds, and what lies beyond them in units of 1/rate.
    pub(crate) fn nanos_and_fraction(self) -> (i64, u64) {
        (self.nanos, self.carry)
    }

    /// Later than `nanos` by what `rate` needs for this work, in bits times 10⁹.
    pub(crate) fn after_work(nanos: i64, work: u128, rate: u64) -> Self {
        let (wait, carry) = (work / u128::from(rate), (work % u128::from(rate)) as u64);
        ExactTime { nanos: nanos.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX)), carry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn many_steps_end_where_one_long_division_does(
            rate in 1u64..=400_000_000_000, sizes in prop::collection::vec(any::<u32>(), 1..200)
        ) {
            let rate = Rate::from_bits_per_second(rate);
            let end = sizes.iter().fold(ExactTime::from_time(Time::ZERO), |at, size| at.after_bytes(*size, rate));
            let total: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
            prop_assume!(rate.time_for(total).as_nanos() < i64::MAX);
            prop_assert_eq!(end.ceil() - Time::ZERO, rate.time_for(total));
        }
    }
}
