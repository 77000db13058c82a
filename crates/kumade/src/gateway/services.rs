//! What a gateway has besides its plane: who may ask it and measure to it, and what it measures itself.

use super::keys::measurement_key;
use crate::running::serve_metrics;
use anyhow::Context;
use kumade_daemon::{ClaimedName, ControlServer, Exporter};
use kumade_gateway::GatewayConfig;
use kumade_gateway::config::{GatewayPath, RemoteSite};
use kumade_gateway::measure::{MeasurementServer, PathMeasurer};
use kumade_gateway::status::{GatewayStatus, blank_status, new_recorder};
use kumade_net::clock;
use kumade_noise_session::PresharedKey;
use kumade_overlay_io::status::Recorder;
use kumade_overlay_io::status::control::StatusProtocol;

/// All of it, until it is dropped.
#[derive(Debug)]
pub(super) struct Services {
    measurement_key: Option<PresharedKey>,
    measurement_server: Option<MeasurementServer>,
    pub(super) measurer: Option<PathMeasurer>,
    pub(super) recorder: Recorder<GatewayStatus>,
    exporter: Option<Exporter>,
    control: Option<ControlServer>,
}

impl Services {
    /// Those of a gateway that starts; it can be asked only once it [answers](Self::answer).
    ///
    /// # Errors
    /// A key file cannot be read, or the system refuses a port.
    pub(super) fn start(config: &GatewayConfig) -> anyhow::Result<Self> {
        let key = measurement_key(config)?;
        Ok(Services {
            measurement_server: start_measurement_server(config, key.clone())?,
            measurer: new_measurer(config, key.clone())?,
            measurement_key: key,
            recorder: new_recorder(config),
            exporter: None,
            control: None,
        })
    }

    /// Lets others ask for the status, and Prometheus fetch it.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub(super) fn answer(
        &mut self,
        config: &GatewayConfig,
        claim: ClaimedName<StatusProtocol<GatewayStatus>>,
    ) -> anyhow::Result<()> {
        self.control = Some(self.recorder.latest().serve(claim)?);
        self.exporter = self.start_exporter(config)?;
        Ok(())
    }

    fn start_exporter(&self, config: &GatewayConfig) -> anyhow::Result<Option<Exporter>> {
        let fetched = self.recorder.latest();
        let start = |address| serve_metrics(address, move || fetched.encode_metrics());
        Ok(config.prometheus.map(start).transpose()?)
    }

    /// Takes over another configuration. Returns what has changed that is in no configuration. The status tells of the paths and
    /// remotes that it has once the plane has them, too.
    ///
    /// # Errors
    /// As when they were started; then they are as they were.
    pub(super) fn reconfigure(
        &mut self,
        before: &GatewayConfig,
        after: &GatewayConfig,
    ) -> anyhow::Result<Option<String>> {
        let outcome = self.apply_config(before, after);
        if outcome.is_err()
            && let Err(error) = self.apply_config(after, before)
        {
            tracing::error!("cannot go back to the configuration before: {error:#}");
        }
        outcome
    }

    fn apply_config(&mut self, before: &GatewayConfig, after: &GatewayConfig) -> anyhow::Result<Option<String>> {
        let key = measurement_key(after)?;
        let has_other_key = key != self.measurement_key;
        if has_other_key || before.measurement != after.measurement {
            // It may have the same port.
            self.measurement_server = None;
            self.measurement_server = start_measurement_server(after, key.clone())?;
        }
        if has_other_key || measured_paths(before) != measured_paths(after) {
            self.measurer = new_measurer(after, key.clone())?;
        }
        self.measurement_key = key;
        if before.prometheus != after.prometheus {
            self.exporter = None;
            self.exporter = self.start_exporter(after)?;
        }
        self.recorder.change_template(|status| *status = blank_status(after));
        Ok(has_other_key.then(|| "measure: another key in its file".to_owned()))
    }
}

/// Between what it is measured, in the order in which results count.
fn measured_paths(config: &GatewayConfig) -> impl PartialEq + use<> {
    let path = |path: &GatewayPath| GatewayPath { weight: 1, rate: None, ..path.clone() };
    let remote =
        |remote: &RemoteSite| (remote.name.clone(), remote.paths.clone(), remote.measurement_addresses.clone());
    let paths: Vec<_> = config.paths.iter().map(path).collect();
    (paths, config.remotes.iter().map(remote).collect::<Vec<_>>())
}

/// What answers the measurements of other gateways.
fn start_measurement_server(
    config: &GatewayConfig,
    key: Option<PresharedKey>,
) -> anyhow::Result<Option<MeasurementServer>> {
    let settings = &config.measurement;
    Ok(settings.is_answering.then(|| MeasurementServer::start(settings.port, key)).transpose()?)
}

fn new_measurer(config: &GatewayConfig, key: Option<PresharedKey>) -> anyhow::Result<Option<PathMeasurer>> {
    let seed = getrandom::u64().context("the system gives no random bytes")?;
    Ok(PathMeasurer::new(config, key, seed, clock::monotonic()))
}
