use crate::config::{TunnelConfig, TunnelConfigError};
use crate::host::HostRefusal;
use kumade_daemon::{ActivityWatch, RuntimeDir};
use kumade_net::SetupError;
use kumade_overlay_io::{
    BondedConfig, BondedError, BondedPlane, BondedStatus, ConnectionConfig, ConnectionRole, Handover, NodeNotice,
};
use kumade_packet_loop::ThreadEnded;
use kumade_relay::{Relay, RelayReport, RelayStatus, RelayUpdate, RelayUpdateError};
use thiserror::Error;

/// One end of a tunnel, until this is dropped.
#[derive(Debug)]
pub struct Tunnel {
    plane: Option<BondedPlane>,
    relay: Option<Relay>,
    config: TunnelConfig,
    directory: RuntimeDir,
    activity: ActivityWatch,
}

/// Why a tunnel cannot start, or ended.
#[derive(Debug, Error)]
pub enum TunnelError {
    /// Settings that contradict each other.
    #[error(transparent)]
    Config(#[from] TunnelConfigError),
    /// Settings that cannot be on this host.
    #[error(transparent)]
    Host(#[from] HostRefusal),
    /// Packets are not carried.
    #[error(transparent)]
    Packets(#[from] BondedError),
    /// Connections are not relayed.
    #[error(transparent)]
    Relay(#[from] SetupError),
    /// They are not relayed as they are to be from now on.
    #[error(transparent)]
    RelayUpdate(#[from] RelayUpdateError),
}

impl Tunnel {
    /// Begins to carry what the settings say. In `directory` changes of the system are written down, so that they can be
    /// undone after a crash. `activity` is told of notices, reports, other outer transports, and of packets and streams.
    ///
    /// # Errors
    /// Settings that contradict each other, or the system refuses a device, a socket or a route.
    pub fn start(config: TunnelConfig, directory: RuntimeDir, activity: ActivityWatch) -> Result<Self, TunnelError> {
        config.validate()?;
        config.check_host()?;
        let relay = config.relay_config().map(|relay| Relay::start(relay, activity.clone())).transpose()?;
        let has_device = config.has_device();
        let mut plane = has_device.then(|| config.clone().bonded_config(directory.clone())).transpose()?;
        if let (Some(relay), Some(handover)) = (&relay, plane.as_mut().and_then(other_stream_receiver)) {
            *handover = Some(Handover::new(relay.acceptor()));
        }
        let plane = plane.map(|plane| BondedPlane::start(plane, activity.clone())).transpose()?;
        Ok(Tunnel { plane, relay, config, directory, activity })
    }

    /// The settings with which it runs.
    pub fn config(&self) -> &TunnelConfig {
        &self.config
    }

    /// Becomes as these settings say; end, transport, device and key are to be as they were. What stays is not interrupted: sessions
    /// and paths of peers, connections to local ports, relayed streams. Returns the notices before, which are about the peers of
    /// before.
    ///
    /// # Errors
    /// Settings that contradict each other, or the system refuses something. Then all goes on as before.
    pub fn update(&mut self, config: TunnelConfig) -> Result<Vec<NodeNotice>, TunnelError> {
        config.validate()?;
        config.check_host()?;
        // What may be refused comes first.
        let relay = match (&self.relay, config.relay_config()) {
            (Some(relay), Some(config)) => RelayChange::Update(Box::new(relay.prepare_update(config)?)),
            (None, Some(config)) => RelayChange::Replace(Some(Relay::start(config, self.activity.clone())?)),
            (_, None) => RelayChange::Replace(None),
        };
        let notices = update_plane(&mut self.plane, &config, &self.directory)?;
        match (relay, &self.relay) {
            (RelayChange::Update(update), Some(relay)) => {
                if let Err(error) = relay.finish_update(*update) {
                    update_plane(&mut self.plane, &self.config, &self.directory)?;
                    return Err(error.into());
                }
            }
            (RelayChange::Update(_), None) => {}
            (RelayChange::Replace(relay), _) => self.relay = relay,
        }
        self.config = config;
        Ok(notices)
    }

    /// What has become of packets; none where none are carried.
    ///
    /// # Errors
    /// It has ended.
    pub fn packet_status(&self) -> Result<Option<BondedStatus>, ThreadEnded> {
        self.plane.as_ref().map(BondedPlane::status).transpose()
    }

    /// What an administrator has to know of handshakes, peers and paths, since this was last asked.
    ///
    /// # Errors
    /// It has ended.
    pub fn take_notices(&self) -> Result<Vec<NodeNotice>, ThreadEnded> {
        self.plane.as_ref().map_or(Ok(Vec::new()), BondedPlane::take_notices)
    }

    /// What has become of relayed connections; none where none are relayed.
    ///
    /// # Errors
    /// It has ended.
    pub fn relay_status(&self) -> Result<Option<RelayStatus>, ThreadEnded> {
        self.relay.as_ref().map(Relay::status).transpose()
    }

    /// Why connections were not relayed, since this was last asked.
    ///
    /// # Errors
    /// It has ended.
    pub fn take_reports(&self) -> Result<Vec<RelayReport>, ThreadEnded> {
        self.relay.as_ref().map_or(Ok(Vec::new()), Relay::take_reports)
    }

    /// Whether it still carries.
    pub fn is_running(&self) -> bool {
        self.plane.as_ref().is_none_or(BondedPlane::is_running) && self.relay.as_ref().is_none_or(Relay::is_running)
    }

    /// Ends it, and waits for that.
    ///
    /// # Errors
    /// Why it had ended by itself before.
    pub fn stop(&self) -> Result<(), TunnelError> {
        self.plane.as_ref().map_or(Ok(()), BondedPlane::stop)?;
        Ok(self.relay.as_ref().map_or(Ok(()), Relay::stop)?)
    }
}

fn update_plane(
    plane: &mut Option<BondedPlane>,
    config: &TunnelConfig,
    directory: &RuntimeDir,
) -> Result<Vec<NodeNotice>, TunnelError> {
    let Some(plane) = plane else { return Ok(Vec::new()) };
    Ok(plane.reconfigure(config.clone().bonded_config(directory.clone())?)?)
}

/// What becomes of the relay where settings change.
enum RelayChange {
    Update(Box<RelayUpdate>),
    Replace(Option<Relay>),
}

/// Who takes what comes to a listening end besides packets.
fn other_stream_receiver(plane: &mut BondedConfig) -> Option<&mut Option<Handover>> {
    match plane.transports.connections_mut() {
        Some(ConnectionConfig { role: ConnectionRole::Listen { handover, .. }, .. }) => Some(handover),
        _ => None,
    }
}
