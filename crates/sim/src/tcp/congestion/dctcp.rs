use super::controller::Ack;
use super::marks::{MarkResponse, MarkedFraction};
use super::window::{CongestionWindow, MIN_THRESHOLD_SEGMENTS};
use super::windowed::WindowController;
use kumade_units::Span;

/// Data Center TCP (RFC 8257): NewReno, but marks reduce the window by half of the share of segments that were marked, once a round trip.
/// Losses halve it.
///
/// It needs the number of marks, and is made for networks in which nobody else shares its queue: it takes most of a bottleneck from
/// senders that halve their window at each mark.
#[derive(Debug, Clone)]
pub struct Dctcp {
    window: CongestionWindow,
    marks: MarkedFraction,
    response: MarkResponse,
}

impl Dctcp {
    /// At the start of a connection, when all is taken to be marked (RFC 8257, section 3.3).
    pub fn new() -> Self {
        Dctcp { window: CongestionWindow::new(), marks: MarkedFraction::new(1.0), response: MarkResponse::default() }
    }
}

impl Default for Dctcp {
    fn default() -> Self {
        Self::new()
    }
}

impl WindowController for Dctcp {
    fn window_state(&self) -> &CongestionWindow {
        &self.window
    }

    fn window_state_mut(&mut self) -> &mut CongestionWindow {
        &mut self.window
    }

    fn counts_marks(&self) -> bool {
        true
    }

    fn process_ack(&mut self, ack: &Ack) {
        self.marks.count(ack, Span::ZERO);
        if !self.window.is_reducing() && self.response.reduces(ack, Span::ZERO) {
            let window = f64::from(self.window.segments());
            let left = (window * (1.0 - self.marks.alpha() / 2.0)) as u32;
            self.window.set_segments(left.max(MIN_THRESHOLD_SEGMENTS));
            self.window.cap_threshold_at_window();
        } else if let Some(acked) = self.window.growth(ack).filter(|_| ack.marked == 0) {
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
    use crate::tcp::congestion::fluid::{ack, grow};
    use kumade_units::Time;

    const ROUND_TRIP: Span = Span::from_millis(20);

    fn marked(now: Time, round: u64, marked: u32) -> Ack {
        let (total_delivered, delivered_when_sent) = (round * 1000 + 1000, round * 1000);
        Ack { marked, total_delivered, delivered_when_sent, ..ack(now, ROUND_TRIP, 40) }
    }

    #[test]
    fn marks_reduce_by_half_of_their_share_once_a_round_trip() {
        let (mut dctcp, mut now) = (Dctcp::new(), Time::ZERO);
        grow(&mut dctcp, &mut now, ROUND_TRIP * 2, ROUND_TRIP);
        assert_eq!(dctcp.window(), 40.0);
        let alpha = dctcp.marks.alpha();
        assert!(alpha < 1.0, "it has seen that nothing was marked: {alpha}");
        dctcp.on_ack(&marked(now, 1, 1));
        let left = 40.0 * (1.0 - dctcp.marks.alpha() / 2.0);
        assert_eq!((dctcp.window(), dctcp.threshold()), (left.floor(), left.floor()));
        dctcp.on_ack(&Ack { delivered_when_sent: 1500, ..marked(now, 1, 1) });
        assert_eq!(dctcp.window(), left.floor(), "no more in this round trip");
        dctcp.on_ack(&marked(now, 2, 1));
        assert!(dctcp.window() < left.floor());
    }

    #[test]
    fn a_loss_halves() {
        let (mut dctcp, mut now) = (Dctcp::new(), Time::ZERO);
        grow(&mut dctcp, &mut now, ROUND_TRIP * 2, ROUND_TRIP);
        dctcp.on_congestion(now, 40);
        assert_eq!((dctcp.window(), dctcp.threshold()), (20.0, 20.0));
    }
}
