use super::config::{DualPi2Config, DualQueueScheduler};
use kumade_units::{Span, Time};

/// Which of the two queues is served next.
#[derive(Debug)]
pub(super) struct Scheduler {
    rule: DualQueueScheduler,
    time_shift: Span,
    /// The classic queue's part of the link.
    classic_weight: f64,
    /// The classic queue has its turn while this is positive: bytes of the L4S queue by its weight, less those of the classic queue.
    classic_credit: f64,
}

/// What the first turn is worth: a full packet of Ethernet.
const FIRST_TURN_BYTES: f64 = 1514.0;

impl Scheduler {
    pub(super) fn new(config: &DualPi2Config) -> Self {
        let classic_weight = config.classic_protection;
        let mut scheduler =
            Scheduler { rule: config.scheduler, time_shift: config.time_shift, classic_weight, classic_credit: 0.0 };
        scheduler.restart();
        scheduler
    }

    /// Of queues whose first packets came at these times, classic first: whether the L4S queue has its turn. None of empty ones.
    pub(super) fn serves_low_latency(&mut self, heads: (Option<Time>, Option<Time>)) -> Option<bool> {
        match heads {
            (None, None) => {
                self.restart();
                None
            }
            (Some(_), None) => Some(false),
            (None, Some(_)) => Some(true),
            (Some(classic), Some(low_latency)) => Some(match self.rule {
                DualQueueScheduler::WeightedRoundRobin => self.classic_credit <= 0.0,
                DualQueueScheduler::TimeShift => low_latency - self.time_shift <= classic,
            }),
        }
    }

    /// A packet of the L4S queue leaves; `others_wait` says whether classic ones do.
    pub(super) fn record_low_latency(&mut self, size: u32, others_wait: bool) {
        if others_wait {
            self.classic_credit += self.classic_weight * f64::from(size);
        }
    }

    /// A classic packet leaves; `others_wait` says whether some of the L4S queue do.
    pub(super) fn record_classic(&mut self, size: u32, others_wait: bool) {
        if others_wait {
            self.classic_credit -= (1.0 - self.classic_weight) * f64::from(size);
        }
    }

    /// The queue of the greater weight begins.
    fn restart(&mut self) {
        self.classic_credit = FIRST_TURN_BYTES * (2.0 * self.classic_weight - 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(config: DualPi2Config, heads: (i64, i64), packets: usize) -> Vec<bool> {
        let mut scheduler = Scheduler::new(&config);
        let head = |millis| Some(Time::ZERO + Span::from_millis(millis));
        let turn = |_| {
            let low_latency = scheduler.serves_low_latency((head(heads.0), head(heads.1))).unwrap();
            match low_latency {
                true => scheduler.record_low_latency(1000, true),
                false => scheduler.record_classic(1000, true),
            }
            low_latency
        };
        (0..packets).map(turn).collect()
    }

    #[test]
    fn round_robin_keeps_a_tenth_for_the_classic_queue() {
        let turns = turns(DualPi2Config::default(), (0, 0), 1000);
        let classic = turns.iter().filter(|low_latency| !**low_latency).count();
        assert!(turns[0] && (97..=101).contains(&classic), "{classic}");
    }

    #[test]
    fn shifted_in_time_the_l4s_queue_goes_first_until_others_waited_much_longer() {
        let config = DualPi2Config { scheduler: DualQueueScheduler::TimeShift, ..DualPi2Config::default() };
        assert!(turns(config, (0, 30), 10).iter().all(|low_latency| *low_latency));
        assert!(turns(config, (0, 31), 10).iter().all(|low_latency| !low_latency));
    }

    #[test]
    fn an_empty_queue_has_no_turn() {
        let mut scheduler = Scheduler::new(&DualPi2Config::default());
        let some = Some(Time::ZERO);
        assert_eq!(scheduler.serves_low_latency((None, None)), None);
        assert_eq!(scheduler.serves_low_latency((some, None)), Some(false));
        assert_eq!(scheduler.serves_low_latency((None, some)), Some(true));
    }
}
