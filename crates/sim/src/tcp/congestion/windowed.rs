use super::controller::{Ack, Controller};
use super::window::CongestionWindow;
use kumade_units::Time;
use std::fmt;

/// A controller that keeps a [`CongestionWindow`], and cuts it by a loss or a timeout: how it does is its own.
pub(super) trait WindowController: fmt::Debug {
    /// The window.
    fn window_state(&self) -> &CongestionWindow;

    /// To change the window.
    fn window_state_mut(&mut self) -> &mut CongestionWindow;

    /// Something new was acknowledged.
    fn process_ack(&mut self, ack: &Ack);

    /// As [`Controller::counts_marks`].
    fn counts_marks(&self) -> bool {
        false
    }

    /// A loss, or a timeout that counts as one: gives the threshold to go down to.
    fn reduced_threshold(&mut self) -> u32;

    /// After a timeout, when the window has collapsed to what is still in flight.
    fn on_timeout(&mut self, in_flight: u32) {
        let _ = in_flight;
    }

    /// After the window has taken its last reduction back.
    fn on_undo(&mut self) {}
}

impl<T: WindowController> Controller for T {
    fn window(&self) -> f64 {
        f64::from(self.window_state().segments())
    }

    fn threshold(&self) -> f64 {
        self.window_state().threshold()
    }

    fn counts_marks(&self) -> bool {
        WindowController::counts_marks(self)
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.process_ack(ack);
    }

    fn on_congestion(&mut self, _now: Time, _in_flight: u32) {
        let threshold = self.reduced_threshold();
        self.window_state_mut().enter_reduction(threshold);
    }

    fn on_recovery_end(&mut self, _now: Time) {
        self.window_state_mut().end_reduction();
    }

    fn on_retransmission_timeout(&mut self, _now: Time, in_flight: u32, again: bool) {
        let threshold = self.window_state().timeout_reduces(again).then(|| self.reduced_threshold());
        self.window_state_mut().collapse(in_flight, threshold);
        self.on_timeout(in_flight);
    }

    fn on_spurious_reduction(&mut self, _now: Time) {
        self.window_state_mut().undo_reduction();
        self.on_undo();
    }
}
