//! What a plane makes of measurements.

use super::measurer::PathMeasurer;
use crate::direct::{DirectError, DirectPlane};
use kumade_net::clock;
use kumade_overlay_io::BondedPlane;
use kumade_units::Rate;

/// A path of the bonded plane that carries this share of what it could tells by that what it can.
const MIN_INFORMATIVE_LOAD_FRACTION: f64 = 0.5;
/// A path of the bonded plane that carries less than this share of what is believed does not tell.
const MAX_UNINFORMATIVE_LOAD_FRACTION: f64 = 0.1;

impl PathMeasurer {
    /// Divides packets of the direct plane by what is found. To be called about ten times a second.
    ///
    /// # Errors
    /// The plane's rules are gone.
    pub fn update_direct_weights(&mut self, plane: &mut DirectPlane) -> Result<(), DirectError> {
        let now = clock::monotonic();
        if !self.is_due(now) {
            return Ok(());
        }
        let sent: Vec<u64> = plane.path_counts()?.iter().map(|count| count.sent.bytes).collect();
        let found = self.advance(&sent, now);
        if let Some((remote, weights)) = found.and_then(|found| Some((found.remote, found.weights?))) {
            tracing::info!("weights {weights:?} are set as measured");
            plane.set_weights(remote, &weights)?;
        }
        Ok(())
    }

    /// Tells the bonded plane what is found of paths whose traffic does not tell. To be called about ten times a second.
    pub fn update_bonded_rates(&mut self, plane: &BondedPlane) {
        let now = clock::monotonic();
        if !self.is_due(now) {
            return;
        }
        // One that has ended says why when it is stopped.
        let Ok(status) = plane.status() else { return };
        let sent = |path: usize| status.remotes.iter().map(|remote| remote.paths[path].status.sent_bytes).sum();
        let paths = status.remotes.first().map_or(0, |remote| remote.paths.len());
        let sent: Vec<u64> = (0..paths).map(sent).collect();
        let found = self.advance(&sent, now);
        let share = |believed: Rate, path: usize| self.traffic_rate(path).as_f64() / believed.as_f64().max(1.0);
        let mut telling = Vec::new();
        for (remote, status) in status.remotes.iter().enumerate() {
            for (path, known) in status.paths.iter().enumerate() {
                let carried = share(known.status.rate, path);
                telling.extend((carried >= MIN_INFORMATIVE_LOAD_FRACTION).then_some((remote, path)));
                let rate =
                    found.as_ref().filter(|found| (found.remote, found.path) == (remote, path)).map(|found| found.rate);
                if let Some(rate) = rate.filter(|_| carried < MAX_UNINFORMATIVE_LOAD_FRACTION) {
                    // As above.
                    let _ = plane.suggest_rate(remote, path, rate);
                }
            }
        }
        telling.into_iter().for_each(|(remote, path)| self.measured_by_traffic(remote, path, now));
    }
}
