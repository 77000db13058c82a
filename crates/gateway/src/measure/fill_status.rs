//! What measurements tell, as it is seen from outside.

use super::measurer::PathMeasurer;
use super::status::{LastMeasurement, MeasuredPathStatus};
use crate::status::{GatewayStatus, MeasuredStatus};
use kumade_units::{Rate, Time};

impl PathMeasurer {
    /// Enters what is known of the paths into the status of the gateway, which has the names. `now` is the monotonic clock's
    /// time.
    pub fn fill_status(&self, status: &mut GatewayStatus, now: Time) {
        for known in self.status(now) {
            let name = &status.paths[known.path].name;
            let path = status.remotes[known.remote].paths.iter_mut().find(|path| path.name == *name);
            path.into_iter().for_each(|path| path.measured = Some(measured_status(&known)));
        }
    }
}

fn measured_status(known: &MeasuredPathStatus) -> MeasuredStatus {
    let (rate, error) = (known.rate.map(Rate::as_f64), known.error.clone());
    let blank = MeasuredStatus { rate_bits_per_second: rate, error, ..MeasuredStatus::default() };
    let Some(LastMeasurement { found, loss, age }) = known.last else { return blank };
    MeasuredStatus {
        available_bits_per_second: Some(found.available.map(Rate::as_f64)),
        carried_bits_per_second: Some(found.own_traffic.as_f64()),
        loss_ratio: loss,
        age_seconds: Some(age.as_secs_f64()),
        ..blank
    }
}
