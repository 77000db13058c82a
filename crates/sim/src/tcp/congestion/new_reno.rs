use super::window::Window;
use super::{Ack, Controller};
use units::Time;

/// Additive increase by a segment per round trip, halving on loss (RFC 5681, RFC 6582), counting what is delivered
/// rather than acknowledgements.
#[derive(Debug, Clone)]
pub struct NewReno {
    window: Window,
}

impl NewReno {
    /// At the start of a connection.
    pub fn new() -> Self {
        NewReno { window: Window::new() }
    }

    fn half(&self) -> u32 {
        self.window.segments() / 2
    }
}

impl Default for NewReno {
    fn default() -> Self {
        Self::new()
    }
}

impl Controller for NewReno {
    fn window(&self) -> f64 {
        f64::from(self.window.segments())
    }

    fn threshold(&self) -> f64 {
        self.window.threshold()
    }

    fn acknowledged(&mut self, ack: &Ack) {
        if let Some(acked) = self.window.growth(ack) {
            self.window.grow_as_reno(acked);
        }
    }

    fn congested(&mut self, _now: Time, _in_flight: u32) {
        self.window.reduce(self.half());
    }

    fn recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn timed_out(&mut self, _now: Time, _in_flight: u32, again: bool) {
        let threshold = self.window.timeout_reduces(again).then(|| self.half());
        self.window.collapse(threshold);
    }

    fn undone(&mut self, _now: Time) {
        self.window.undo();
    }
}
