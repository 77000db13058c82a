use super::controller::{Ack, Controller};
use super::window::Window;
use kumade_units::Time;
use std::fmt;

/// A controller that keeps a [`Window`], and cuts it by a loss or a timeout: how it does is its own.
pub(super) trait Windowed: fmt::Debug {
    /// The window.
    fn held(&self) -> &Window;

    /// To change the window.
    fn held_mut(&mut self) -> &mut Window;

    /// Something new was acknowledged.
    fn hear(&mut self, ack: &Ack);

    /// A loss, or a timeout that counts as one: gives the threshold to go down to.
    fn reduced(&mut self) -> u32;

    /// After a timeout, when the window has collapsed to what is still in flight.
    fn collapsed(&mut self, in_flight: u32) {
        let _ = in_flight;
    }

    /// After the window has taken its last reduction back.
    fn restored(&mut self) {}
}

impl<T: Windowed> Controller for T {
    fn window(&self) -> f64 {
        f64::from(self.held().segments())
    }

    fn threshold(&self) -> f64 {
        self.held().threshold()
    }

    fn acknowledged(&mut self, ack: &Ack) {
        self.hear(ack);
    }

    fn congested(&mut self, _now: Time, _in_flight: u32) {
        let threshold = self.reduced();
        self.held_mut().reduce(threshold);
    }

    fn recovered(&mut self, _now: Time) {
        self.held_mut().recovered();
    }

    fn timed_out(&mut self, _now: Time, in_flight: u32, again: bool) {
        let threshold = self.held().timeout_reduces(again).then(|| self.reduced());
        self.held_mut().collapse(in_flight, threshold);
        self.collapsed(in_flight);
    }

    fn undone(&mut self, _now: Time) {
        self.held_mut().undo();
        self.restored();
    }
}
