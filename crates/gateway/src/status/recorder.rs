use super::{GatewayPathStatus, GatewayStatus, PlaneKind, RemotePath, RemoteSiteStatus};
use crate::config::{self, GatewayConfig, Plane};
use kumade_multipath::PathPolicy;
use kumade_overlay_io::status::Recorder;

/// Renews the status of a gateway that starts now. Until then, nothing is up.
pub fn new_recorder(config: &GatewayConfig) -> Recorder<GatewayStatus> {
    Recorder::new(blank_status(config))
}

/// The names of all that a configuration has.
pub fn blank_status(config: &GatewayConfig) -> GatewayStatus {
    let (plane, by_weight) = match &config.plane {
        Plane::Direct => (PlaneKind::Direct, true),
        Plane::Bonded(bonded) => (PlaneKind::Bonded, matches!(bonded.path_policy, PathPolicy::Ratio { .. })),
    };
    let paths = config.paths.iter().map(|path| GatewayPathStatus {
        name: path.name.clone(),
        interface: path.interface.clone(),
        up: false,
        state_seconds: 0.0,
        failures: 0,
        sent: Default::default(),
        share_ratio: None,
    });
    let remote_path = |place: &usize| {
        let path = &config.paths[*place];
        RemotePath { name: path.name.clone(), weight: by_weight.then_some(path.weight), measured: None }
    };
    let remote = |remote: &config::RemoteSite| RemoteSiteStatus {
        name: remote.name.clone(),
        paths: remote.paths.iter().map(remote_path).collect(),
        tunnel: None,
        sessions: None,
    };
    GatewayStatus {
        schema: GatewayStatus::SCHEMA.to_owned(),
        name: config.name.clone(),
        plane,
        time: kumade_overlay_io::status::utc_timestamp(),
        duration_seconds: 0.0,
        interval_seconds: None,
        paths: paths.collect(),
        remotes: config.remotes.iter().map(remote).collect(),
        sessions: Vec::new(),
        session_count: 0,
        refused: None,
    }
}
