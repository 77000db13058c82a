use crate::exact_time::ExactTime;
use kumade_units::ConfigError;
use kumade_units::{Rate, Span, Time};
use std::sync::Arc;

/// A rate that changes at given times, exactly: a packet in transmission when it changes is transmitted at both rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateSchedule {
    /// Nanoseconds after the origin, increasing from 0, and the rate in bit/s from then on.
    steps: Arc<[(i64, u64)]>,
    /// After how many nanoseconds it begins anew, and what it can do in that time.
    cycle: Option<ScheduleCycle>,
    origin: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ScheduleCycle {
    nanos: i64,
    /// Bits times 10⁹.
    total_work: u128,
}

/// Service at a rate, constant or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServiceRate {
    Constant(Rate),
    Schedule(RateSchedule),
}

impl RateSchedule {
    /// From each of these times after the origin on, the rate beside it; the last one stays. A rate of zero lets
    /// nothing pass until the next step. The origin is [`Time::ZERO`] unless set by [`RateSchedule::starting_at`];
    /// before it, the first rate holds.
    ///
    /// # Errors
    /// The first time is not 0, the times do not increase, or the last rate is zero.
    pub fn new(steps: &[(Span, Rate)]) -> Result<Self, ConfigError> {
        Self::build(steps, None)
    }

    /// As [`RateSchedule::new`], but repeated with this period.
    ///
    /// # Errors
    /// The first time is not 0, the times do not increase up to the period, or all rates are zero.
    pub fn repeating(steps: &[(Span, Rate)], period: Span) -> Result<Self, ConfigError> {
        Self::build(steps, Some(period))
    }

    /// The same steps, counted from `origin`.
    pub fn starting_at(self, origin: Time) -> Self {
        RateSchedule { origin, ..self }
    }

    fn build(steps: &[(Span, Rate)], period: Option<Span>) -> Result<Self, ConfigError> {
        let error = ConfigError::for_part("rate schedule");
        let times: Vec<_> = steps.iter().map(|(time, _)| *time).chain(period).collect();
        if steps.first().is_none_or(|(time, _)| *time != Span::ZERO) {
            let first = steps.first().map_or("missing".into(), |(time, _)| time.to_string());
            return Err(error("first step's time", first, "which leaves the beginning open", "begin with a step at 0"));
        }
        if let Some(pair) = times.windows(2).find(|pair| pair[0] >= pair[1]) {
            let problem = "which is not after the step before it";
            return Err(error("time of a step or the period", pair[1].to_string(), problem, "give increasing times"));
        }
        let steps: Arc<[_]> = steps.iter().map(|(time, rate)| (time.as_nanos(), rate.bits_per_second())).collect();
        let work = |nanos: i64| {
            let ends = steps.iter().skip(1).map(|step| step.0).chain([nanos]);
            steps.iter().zip(ends).map(|((from, rate), to)| (to - from) as u128 * u128::from(*rate)).sum()
        };
        let cycle =
            period.map(|period| ScheduleCycle { nanos: period.as_nanos(), total_work: work(period.as_nanos()) });
        let ends_at_zero = steps.last().is_some_and(|(_, rate)| *rate == 0);
        if cycle.map_or(ends_at_zero, |cycle| cycle.total_work == 0) {
            let remedy = "end with a rate above 0, or repeat steps of which one has it";
            return Err(error("last rate", Rate::ZERO.to_string(), "which lets nothing pass any more", remedy));
        }
        Ok(RateSchedule { steps, cycle, origin: Time::ZERO })
    }

    /// The highest rate.
    pub fn highest_rate(&self) -> Rate {
        Rate::from_bits_per_second(self.steps.iter().map(|(_, rate)| *rate).max().unwrap_or(0))
    }

    /// The rate at `time`.
    pub fn rate_at(&self, time: Time) -> Rate {
        Rate::from_bits_per_second(self.rate_and_end(time.as_nanos()).0)
    }

    /// The mean rate from one time to a later one; that at `from` where it is not later.
    pub fn mean_rate(&self, from: Time, to: Time) -> Rate {
        match (to - from).as_nanos() {
            nanos @ 1.. => {
                Rate::from_f64((self.work_until(from, ExactTime::from_time(to)) as f64 / nanos as f64).round())
            }
            _ => self.rate_at(from),
        }
    }

    /// The rate at an instant, and the next at which it may change; that is always later.
    fn rate_and_end(&self, nanos: i64) -> (u64, i64) {
        let elapsed = nanos.saturating_sub(self.origin.as_nanos());
        if elapsed < 0 {
            return (self.steps[0].1, self.origin.as_nanos());
        }
        let into = self.cycle.map_or(elapsed, |cycle| elapsed % cycle.nanos);
        let next = self.steps.partition_point(|(time, _)| *time <= into);
        let end = self.steps.get(next).map(|step| step.0).or(self.cycle.map(|cycle| cycle.nanos));
        let rate = self.steps[next - 1].1;
        (rate, end.map_or(i64::MAX, |end| nanos.saturating_add(end - into)))
    }

    /// When `work` that is begun at `from` is done.
    fn finish_time(&self, from: ExactTime, mut work: u128) -> ExactTime {
        let (mut nanos, mut carry) = from.nanos_and_fraction();
        loop {
            if let Some(cycle) = self.cycle.filter(|cycle| work > cycle.total_work && nanos >= self.origin.as_nanos()) {
                let whole = (work - 1) / cycle.total_work;
                work -= whole * cycle.total_work;
                let skipped = i64::try_from(whole).ok().and_then(|whole| whole.checked_mul(cycle.nanos));
                nanos = nanos.saturating_add(skipped.unwrap_or(i64::MAX));
            }
            let (rate, end) = self.rate_and_end(nanos);
            let possible = (i128::from(end) - i128::from(nanos)) as u128 * u128::from(rate) - u128::from(carry);
            if end == i64::MAX || (work <= possible && rate > 0) {
                return ExactTime::after_work(nanos, work + u128::from(carry), rate.max(1));
            }
            work -= possible;
            (nanos, carry) = (end, 0);
        }
    }

    /// What is done from `now` until then.
    fn work_until(&self, now: Time, until: ExactTime) -> u128 {
        let (end, carry) = until.nanos_and_fraction();
        let (mut nanos, mut work) = (now.as_nanos(), u128::from(carry));
        while nanos < end {
            if let Some(cycle) = self.cycle.filter(|cycle| end - nanos > cycle.nanos && nanos >= self.origin.as_nanos())
            {
                let whole = (end - nanos) / cycle.nanos;
                work += whole as u128 * cycle.total_work;
                nanos += whole * cycle.nanos;
                continue;
            }
            let (rate, next) = self.rate_and_end(nanos);
            work += (next.min(end) - nanos) as u128 * u128::from(rate);
            nanos = next.min(end);
        }
        work
    }
}

impl ServiceRate {
    /// When the service of a packet that begins at `from` ends.
    pub(crate) fn serve(&self, from: ExactTime, bytes: u32) -> ExactTime {
        match self {
            ServiceRate::Constant(rate) => from.after_bytes(bytes, *rate),
            ServiceRate::Schedule(_) if bytes == 0 => from,
            ServiceRate::Schedule(schedule) => schedule.finish_time(from, u128::from(bytes) * 8_000_000_000),
        }
    }

    /// When what is left of a service, in bits times 10⁹, ends if it goes on from `now`.
    pub(crate) fn resume(&self, now: Time, work: u128) -> ExactTime {
        match self {
            ServiceRate::Constant(rate) => ExactTime::after_work(now.as_nanos(), work, rate.bits_per_second()),
            ServiceRate::Schedule(schedule) => schedule.finish_time(ExactTime::from_time(now), work),
        }
    }

    /// What is left at `now` of a service that would end then: bits times 10⁹.
    pub(crate) fn remaining_work(&self, now: Time, end: ExactTime) -> u128 {
        match self {
            ServiceRate::Constant(rate) => {
                let (nanos, carry) = end.nanos_and_fraction();
                (nanos - now.as_nanos()).max(0) as u128 * u128::from(rate.bits_per_second()) + u128::from(carry)
            }
            ServiceRate::Schedule(schedule) => schedule.work_until(now, end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(millis: i64, rate: u64) -> (Span, Rate) {
        (Span::from_millis(millis), Rate::from_mbit(rate))
    }

    #[test]
    fn the_rate_is_that_of_the_step_and_repeats() {
        let steps = [mbit(0, 10), mbit(5, 0), mbit(7, 30)];
        let once = RateSchedule::new(&steps).unwrap().starting_at(Time::from_nanos(1_000_000));
        let again = RateSchedule::repeating(&steps, Span::from_millis(10)).unwrap();
        let rates = |schedule: &RateSchedule, millis: [i64; 6]| {
            millis.map(|millis| schedule.rate_at(Time::from_nanos(millis * 1_000_000)).bits_per_second() / 1_000_000)
        };
        assert_eq!(rates(&once, [-9, 1, 5, 6, 8, 1000]), [10, 10, 10, 0, 30, 30]);
        assert_eq!(rates(&again, [0, 5, 7, 10, 1_000_006, 1_000_009]), [10, 0, 30, 10, 0, 30]);
        assert_eq!(again.highest_rate(), Rate::from_mbit(30));
        let mean =
            |from: i64, to: i64| again.mean_rate(Time::from_nanos(from * 1_000_000), Time::from_nanos(to * 1_000_000));
        assert_eq!(
            [mean(0, 10), mean(4, 8), mean(3, 1_000_003)].map(|rate| rate.bits_per_second() / 1_000_000),
            [14, 10, 14]
        );
        assert_eq!(mean(7, 7), Rate::from_mbit(30));
    }

    #[test]
    fn many_cycles_are_skipped_at_once() {
        // 1 bit of each millisecond's first nanosecond is served.
        let steps = [(Span::ZERO, Rate::from_bits_per_second(1_000_000_000)), (Span::from_nanos(1), Rate::ZERO)];
        let pace = ServiceRate::Schedule(RateSchedule::repeating(&steps, Span::from_millis(1)).unwrap());
        let end = pace.serve(ExactTime::from_time(Time::ZERO), 1_000_000_000);
        assert_eq!(end.ceil().as_nanos(), 7_999_999_999 * 1_000_000 + 1);
        assert_eq!(pace.remaining_work(Time::from_nanos(1), end), 7_999_999_999 * 1_000_000_000);
    }

    #[test]
    fn schedules_that_cannot_be_are_refused_with_the_reason() {
        let error =
            |steps: &[(Span, Rate)], period: Option<Span>| RateSchedule::build(steps, period).unwrap_err().to_string();
        assert!(error(&[], None).contains("begin with a step at 0"));
        assert!(error(&[mbit(1, 1)], None).contains("begin with a step at 0"));
        assert!(error(&[mbit(0, 1), mbit(0, 2)], None).contains("not after the step before"));
        assert!(error(&[mbit(0, 1)], Some(Span::ZERO)).contains("not after the step before"));
        assert!(error(&[mbit(0, 1), mbit(1, 0)], None).contains("lets nothing pass"));
        assert!(error(&[mbit(0, 0)], Some(Span::from_secs(1))).contains("lets nothing pass"));
    }
}
