use super::config::DualPi2Config;
use kumade_units::{Span, Time};

/// The base probability of both queues: a proportional-integral controller of the queueing delay (RFC 9332, `dualpi2_update`).
#[derive(Debug, Default)]
pub(super) struct CoupledPi2 {
    base_probability: f64,
    previous_delay: Span,
    /// When it is calculated next; none before the first packet.
    next_update: Option<Time>,
}

/// After so many calculations without a packet between them, another one changes nothing that matters.
const MAX_UPDATES: u32 = 2000;

impl CoupledPi2 {
    /// Makes up for the calculations that were due by now. `oldest` is when the packet came that has waited longest: in Linux as here of
    /// both queues, so that the controller also steers senders that are only in the L4S queue.
    pub(super) fn update_until(&mut self, now: Time, oldest: Option<Time>, config: &DualPi2Config) {
        let mut next = self.next_update.unwrap_or(now + config.update);
        for _ in 0..MAX_UPDATES {
            if next > now {
                break;
            }
            self.update(oldest.map_or(Span::ZERO, |oldest| (next - oldest).max(Span::ZERO)), config);
            next += config.update;
        }
        self.next_update = Some(if next > now { next } else { now + config.update });
    }

    fn update(&mut self, delay: Span, config: &DualPi2Config) {
        let [now, before, target] = [delay, self.previous_delay, config.target].map(Span::as_secs_f64);
        let step = config.alpha * (now - target) + config.beta * (now - before);
        // Who does not drop marks all at most, and keeps the queues' balance while they overflow.
        let most = if config.drops_on_overload { 1.0 } else { 1.0 / f64::from(config.coupling_factor) };
        self.base_probability = (self.base_probability + step).clamp(0.0, most);
        self.previous_delay = delay;
    }

    #[cfg(test)]
    pub(super) fn force_base_probability(&mut self, base_probability: f64) {
        self.base_probability = base_probability;
    }

    /// With which a classic packet is dropped or marked.
    pub(super) fn classic_probability(&self) -> f64 {
        self.base_probability * self.base_probability
    }

    /// With which a packet of the L4S queue is marked for the sake of the classic ones.
    pub(super) fn coupled_probability(&self, config: &DualPi2Config) -> f64 {
        (self.base_probability * f64::from(config.coupling_factor)).min(1.0)
    }

    /// Whether marks no longer suffice.
    pub(super) fn is_overloaded(&self, config: &DualPi2Config) -> bool {
        self.base_probability * f64::from(config.coupling_factor) >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(i64) -> Span = Span::from_millis;

    #[test]
    fn the_base_probability_follows_the_delay_and_its_change() {
        let config = DualPi2Config::default();
        let mut controller = CoupledPi2::default();
        // 0.16 · 5 ms + 3.2 · 20 ms, then 0.16 · 5 ms.
        controller.update(MS(20), &config);
        assert!((controller.base_probability - 0.0648).abs() < 1e-12, "{}", controller.base_probability);
        controller.update(MS(20), &config);
        assert!((controller.base_probability - 0.0656).abs() < 1e-12);
        assert!((controller.classic_probability() - 0.0656 * 0.0656).abs() < 1e-12);
        assert!((controller.coupled_probability(&config) - 0.1312).abs() < 1e-12);
        controller.update(MS(0), &config);
        // 0.16 · 15 ms and 3.2 · 20 ms less.
        assert_eq!(controller.base_probability, 0.0, "it is never negative");
    }

    #[test]
    fn overload_begins_where_all_l4s_packets_are_marked() {
        let config = DualPi2Config::default();
        let overloaded = |base_probability| {
            let controller = CoupledPi2 { base_probability, ..CoupledPi2::default() };
            (controller.is_overloaded(&config), controller.coupled_probability(&config))
        };
        assert_eq!((overloaded(0.499).0, overloaded(0.5), overloaded(0.8)), (false, (true, 1.0), (true, 1.0)));
    }

    #[test]
    fn without_drops_the_probability_stops_at_overload() {
        let config = DualPi2Config { drops_on_overload: false, ..DualPi2Config::default() };
        let mut controller = CoupledPi2::default();
        for _ in 0..100 {
            controller.update(MS(500), &config);
        }
        assert_eq!(controller.base_probability, 0.5);
    }

    #[test]
    fn calculations_that_were_due_in_a_pause_are_made_up_for() {
        let config = DualPi2Config::default();
        let mut controller = CoupledPi2 { base_probability: 0.9, previous_delay: MS(15), ..CoupledPi2::default() };
        controller.update_until(Time::ZERO, None, &config);
        controller.update_until(Time::ZERO + MS(33), None, &config);
        // Two: 3.2 · 15 ms once, 0.16 · 15 ms twice.
        assert!((controller.base_probability - (0.9 - 0.048 - 0.0048)).abs() < 1e-12);
        controller.update_until(Time::ZERO + Span::from_secs(1_000_000), None, &config);
        assert_eq!(controller.base_probability, 0.0);
    }
}
