use super::load::PathLoad;
use super::path_measurement::{MeasurementFailure, interpret_report, path_measure_config};
use crate::bonded;
use crate::config::{GatewayConfig, Plane, RemoteSite};
use crate::direct;
use crate::status::{GatewayStatus, MeasuredStatus};
use kumade_client::{Report, RunningMeasurement};
use kumade_multipath::measured::{MeasuredPaths, PathMeasurement, ScheduleConfig};
use kumade_net::SocketBinding;
use kumade_noise_session::PresharedKey;
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span, Time};
use std::net::SocketAddr;

/// Measures the paths of a gateway, one at a time. The module's first page says how.
#[derive(Debug)]
pub struct PathMeasurer {
    remotes: Vec<MeasuredRemote>,
    key: Option<PresharedKey>,
    loads: Vec<PathLoad>,
    running: Option<PathMeasurementRun>,
    /// When to look again.
    next_advance: Time,
}

/// What is known of a path to a remote site by measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredPathStatus {
    /// The remote site's place in the configuration.
    pub remote: usize,
    /// The path's place in the configuration.
    pub path: usize,
    /// Its weight by measurements; `None` until all paths of the remote site have been measured.
    pub weight: Option<u32>,
    /// As documents have it.
    pub measured: MeasuredStatus,
}

/// A remote site to which paths are measured.
#[derive(Debug)]
struct MeasuredRemote {
    site_index: usize,
    name: String,
    measured_paths: MeasuredPaths,
    paths: Vec<MeasuredPath>,
}

#[derive(Debug)]
struct MeasuredPath {
    path_index: usize,
    name: String,
    binding: SocketBinding,
    target: SocketAddr,
    /// With the loss of the idle path, and when.
    last: Option<(PathMeasurement, Option<Estimate<f64>>, Time)>,
    error: Option<String>,
}

#[derive(Debug)]
struct PathMeasurementRun {
    /// The place in the list of those that are measured.
    remote: usize,
    /// The place in its list.
    path: usize,
    measurement: RunningMeasurement,
    began: Time,
    /// What had left by the path then.
    sent_bytes_before: u64,
}

/// A measurement has succeeded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompletedMeasurement {
    /// The remote site's place in the configuration.
    pub(super) remote: usize,
    /// The path's place in the configuration.
    pub(super) path: usize,
    /// The rate of the path.
    pub(super) rate: Rate,
    /// The weights of the site's paths, where they have changed.
    pub(super) weights: Option<Vec<u32>>,
}

const ADVANCE_INTERVAL: Span = Span::from_secs(1);
/// The share of a path that measurements may take, for all remote sites together.
const MAX_MEASUREMENT_FRACTION: f64 = 0.01;

impl PathMeasurer {
    /// For a valid configuration; `None` where it leaves the weights as they are. `key` is that of its key file, `seed` makes
    /// the times of measurements differ from other gateways'.
    pub fn new(config: &GatewayConfig, key: Option<PresharedKey>, seed: u64, now: Time) -> Option<Self> {
        let is_measured = |(_, remote): &(usize, &RemoteSite)| !remote.measurement_addresses.is_empty();
        let measured: Vec<_> = config.remotes.iter().enumerate().filter(is_measured).collect();
        let max_share = MAX_MEASUREMENT_FRACTION / measured.len() as f64;
        let remote = |(place, remote): &(usize, &RemoteSite)| {
            let schedule = ScheduleConfig {
                max_rate_fraction: max_share,
                seed: seed ^ *place as u64,
                ..ScheduleConfig::default()
            };
            let paths = remote.paths.iter().zip(&remote.measurement_addresses);
            MeasuredRemote {
                site_index: *place,
                name: remote.name.clone(),
                measured_paths: MeasuredPaths::new(schedule, remote.paths.len(), now),
                paths: paths.map(|(path, to)| MeasuredPath::new(config, *path, *to)).collect(),
            }
        };
        let remotes: Vec<_> = measured.iter().map(remote).collect();
        let loads = vec![PathLoad::new(0, now); config.paths.len()];
        (!remotes.is_empty()).then_some(PathMeasurer { remotes, key, loads, running: None, next_advance: now })
    }

    /// What is known of the paths, of one remote site after the other.
    pub fn status(&self, now: Time) -> Vec<MeasuredPathStatus> {
        let of_remote = |remote: &MeasuredRemote| -> Vec<_> {
            let paths = remote.paths.iter().enumerate();
            let status = |(number, path): (usize, &MeasuredPath)| MeasuredPathStatus {
                remote: remote.site_index,
                path: path.path_index,
                weight: remote.measured_paths.weights().map(|weights| weights[number]),
                measured: path.status(remote.measured_paths.rate(number), now),
            };
            paths.map(status).collect()
        };
        self.remotes.iter().flat_map(of_remote).collect()
    }

    /// Enters what is known of the paths into the status of the gateway, which has the names. `now` is the monotonic clock's
    /// time.
    pub fn fill_status(&self, status: &mut GatewayStatus, now: Time) {
        for MeasuredPathStatus { remote, path, measured, .. } in self.status(now) {
            let name = &status.paths[path].name;
            let path = status.remotes[remote].paths.iter_mut().find(|path| path.name == *name);
            path.into_iter().for_each(|path| path.measured = Some(measured.clone()));
        }
    }

    /// Whether a second has passed since it last was so.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.next_advance;
        if is_due {
            self.next_advance = now + ADVANCE_INTERVAL;
        }
        is_due
    }

    /// Begins and ends measurements. `sent` are the bytes that have left by each path so far. To be called when it is due.
    pub(super) fn advance(&mut self, sent: &[u64], now: Time) -> Option<CompletedMeasurement> {
        let carried: Vec<Rate> = self.loads.iter_mut().zip(sent).map(|(load, sent)| load.update(*sent, now)).collect();
        if self.running.as_ref().is_some_and(|running| running.measurement.is_finished()) {
            return self.running.take().and_then(|running| self.finish_measurement(running, sent, now));
        }
        if self.running.is_none() {
            self.begin_measurement(sent, &carried, now);
        }
        None
    }

    /// Their traffic tells what these paths carry.
    pub(super) fn measured_by_traffic(&mut self, remote: usize, path: usize, now: Time) {
        for remote in self.remotes.iter_mut().filter(|measured| measured.site_index == remote) {
            let place = remote.paths.iter().position(|measured| measured.path_index == path);
            place.into_iter().for_each(|place| remote.measured_paths.postpone_measurement(place, now));
        }
    }

    /// What a path carries, by the last call of [`advance`](Self::advance).
    pub(super) fn traffic_rate(&self, path: usize) -> Rate {
        self.loads[path].rate()
    }

    fn begin_measurement(&mut self, sent: &[u64], carried: &[Rate], now: Time) {
        for (place, remote) in self.remotes.iter_mut().enumerate() {
            let carried: Vec<Rate> = remote.paths.iter().map(|path| carried[path.path_index]).collect();
            let Some(path) = remote.measured_paths.start_measurement(&carried, now) else { continue };
            let measured = &mut remote.paths[path];
            let sent = sent[measured.path_index];
            match RunningMeasurement::start(path_measure_config(
                measured.binding.clone(),
                measured.target,
                self.key.clone(),
            )) {
                Ok(measurement) => {
                    self.running = Some(PathMeasurementRun {
                        remote: place,
                        path,
                        measurement,
                        began: now,
                        sent_bytes_before: sent,
                    })
                }
                Err(error) => {
                    let failure = MeasurementFailure { reason: format!("cannot start a thread: {error}"), bytes: 0 };
                    remote.record_failure(path, failure, now);
                }
            }
            return;
        }
    }

    fn finish_measurement(
        &mut self,
        running: PathMeasurementRun,
        sent: &[u64],
        now: Time,
    ) -> Option<CompletedMeasurement> {
        let remote = &mut self.remotes[running.remote];
        let place = remote.paths[running.path].path_index;
        let sent = sent[place].saturating_sub(running.sent_bytes_before);
        let ended = running.measurement.finish();
        let report = ended.outcome.map_err(|error| MeasurementFailure { reason: error.message, bytes: 0 });
        let found = report
            .and_then(|report| Ok((interpret_report(&report, sent, now - running.began)?, measured_loss(&report))));
        match found {
            Ok((found, loss)) => Some(remote.record_measurement(running.path, found, loss, now)),
            Err(failure) => {
                remote.record_failure(running.path, failure, now);
                None
            }
        }
    }
}

impl MeasuredRemote {
    fn record_measurement(
        &mut self,
        path: usize,
        found: PathMeasurement,
        loss: Option<Estimate<f64>>,
        now: Time,
    ) -> CompletedMeasurement {
        let measured = &mut self.paths[path];
        measured.last = Some((found, loss, now));
        measured.error = None;
        let changed = self.measured_paths.record_measurement(path, &found, now);
        tracing::debug!("path {} to {}: {found:?}", measured.name, self.name);
        CompletedMeasurement {
            remote: self.site_index,
            path: measured.path_index,
            rate: self.measured_paths.rate(path).unwrap_or_default(),
            weights: changed.then(|| self.measured_paths.weights().map(<[u32]>::to_vec)).flatten(),
        }
    }

    fn record_failure(&mut self, path: usize, failure: MeasurementFailure, now: Time) {
        self.measured_paths.record_failure(path, failure.bytes, now);
        let measured = &mut self.paths[path];
        // Each further one in a row is no news.
        if measured.error.is_none() {
            let (path, site, to) = (&measured.name, &self.name, measured.target);
            tracing::warn!("path {path} to {site} cannot be measured, weights stay as they are: {}", failure.reason);
            tracing::debug!("it was measured to {to}");
        }
        measured.error = Some(failure.reason);
    }
}

impl MeasuredPath {
    fn new(config: &GatewayConfig, place: usize, to: SocketAddr) -> Self {
        let path = &config.paths[place];
        let binding = match config.plane {
            Plane::Direct => SocketBinding { mark: Some(direct::mark(place)), ..SocketBinding::default() },
            Plane::Bonded(_) => bonded::path_binding(place, path),
        };
        MeasuredPath { path_index: place, name: path.name.clone(), binding, target: to, last: None, error: None }
    }

    /// `rate` is that by which it is weighed.
    fn status(&self, rate: Option<Rate>, now: Time) -> MeasuredStatus {
        let (rate, error) = (rate.map(Rate::as_f64), self.error.clone());
        let blank = MeasuredStatus { rate_bits_per_second: rate, error, ..MeasuredStatus::default() };
        let Some((found, loss, measured_at)) = self.last else { return blank };
        MeasuredStatus {
            available_bits_per_second: Some(found.available.map(Rate::as_f64)),
            carried_bits_per_second: Some(found.own_traffic.as_f64()),
            loss_ratio: loss,
            age_seconds: Some((now - measured_at).as_secs_f64()),
            ..blank
        }
    }
}

/// On the idle path, in the direction of the packets that are divided.
fn measured_loss(report: &Report) -> Option<Estimate<f64>> {
    Some(report.delay.as_ref()?.up_packets?.loss_ratio)
}
