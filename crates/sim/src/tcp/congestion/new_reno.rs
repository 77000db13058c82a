use super::controller::Ack;
use super::window::CongestionWindow;
use super::windowed::WindowController;

/// Additive increase by a segment per round trip, halving on loss (RFC 5681, RFC 6582), counting what is delivered
/// rather than acknowledgements.
#[derive(Debug, Clone)]
pub struct NewReno {
    window: CongestionWindow,
}

impl NewReno {
    /// At the start of a connection.
    pub fn new() -> Self {
        NewReno { window: CongestionWindow::new() }
    }
}

impl Default for NewReno {
    fn default() -> Self {
        Self::new()
    }
}

impl WindowController for NewReno {
    fn window_state(&self) -> &CongestionWindow {
        &self.window
    }

    fn window_state_mut(&mut self) -> &mut CongestionWindow {
        &mut self.window
    }

    fn process_ack(&mut self, ack: &Ack) {
        if let Some(acked) = self.window.growth(ack) {
            self.window.grow_as_reno(acked);
        }
    }

    fn reduced_threshold(&mut self) -> u32 {
        self.window.segments() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::Controller;
    use crate::tcp::congestion::fluid::{Path, ack, grow};
    use kumade_units::{Span, Time};

    const ROUND_TRIP: Span = Span::from_millis(20);

    #[test]
    fn doubles_until_a_loss_then_grows_by_one_from_half() {
        let (mut reno, mut now) = (NewReno::new(), Time::ZERO);
        grow(&mut reno, &mut now, ROUND_TRIP, ROUND_TRIP);
        assert_eq!(reno.window(), 20.0);
        grow(&mut reno, &mut now, ROUND_TRIP, ROUND_TRIP);
        assert_eq!(reno.window(), 40.0);
        reno.on_congestion(now, 40);
        reno.on_ack(&ack(now, ROUND_TRIP, 40));
        assert_eq!((reno.window(), reno.threshold()), (20.0, 20.0), "it does not grow in recovery");
        reno.on_recovery_end(now);
        grow(&mut reno, &mut now, ROUND_TRIP, ROUND_TRIP);
        assert_eq!(reno.window(), 21.0);
        grow(&mut reno, &mut now, ROUND_TRIP * 9, ROUND_TRIP);
        assert_eq!(reno.window(), 30.0);
    }

    #[test]
    fn a_timeout_starts_over_and_halves_once_only() {
        let (mut reno, mut now) = (NewReno::new(), Time::ZERO);
        grow(&mut reno, &mut now, ROUND_TRIP * 2, ROUND_TRIP);
        reno.on_retransmission_timeout(now, 3, false);
        assert_eq!((reno.window(), reno.threshold()), (4.0, 20.0), "three may yet arrive");
        reno.on_retransmission_timeout(now, 0, true);
        assert_eq!(reno.window(), 1.0);
        assert_eq!(reno.threshold(), 20.0);
        grow(&mut reno, &mut now, ROUND_TRIP * 5, ROUND_TRIP);
        assert_eq!(reno.window(), 20.0);
        reno.on_spurious_reduction(now);
        assert_eq!((reno.window(), reno.threshold()), (40.0, f64::INFINITY));
    }

    #[test]
    fn grows_only_while_the_window_limits_it() {
        let mut reno = NewReno::new();
        reno.on_ack(&Ack { window_limited: false, ..ack(Time::ZERO, ROUND_TRIP, 5) });
        assert_eq!(reno.window(), 10.0);
        // What covers two segments counts for two (RFC 3465).
        reno.on_ack(&Ack { acked: 2, delivered: 2, ..ack(Time::ZERO, ROUND_TRIP, 5) });
        assert_eq!(reno.window(), 12.0);
    }

    #[test]
    fn saws_between_the_path_full_and_its_queue_empty() {
        let mut path = Path::new(10, ROUND_TRIP, 17.0);
        let mut reno = NewReno::new();
        path.run(&mut reno, Span::from_secs(5), |_, _| {});
        let (before, begun) = (path.delivered(), path.recoveries);
        path.run(&mut reno, Span::from_secs(60), |_, _| {});
        let used = (path.delivered() - before) as f64 / (60.0 * path.rate);
        assert!(used > 0.97, "{used}");
        // From half of 35 segments to 35 by one per round trip of 20 to 40 ms.
        let recoveries = path.recoveries - begun;
        assert!((90..160).contains(&recoveries), "{recoveries}");
    }
}
