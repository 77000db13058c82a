use crate::config::{TunnelConfig, TunnelConfigError};
use crate::host::HostRefusal;
use kumade_daemon::RuntimeDir;
use kumade_net::SetupError;
use kumade_overlay_io::{
    BondedConfig, BondedError, BondedPlane, BondedStatus, ConnectionConfig, ConnectionRole, Handover, NodeNotice,
};
use kumade_packet_loop::ThreadEnded;
use kumade_relay::{Relay, RelayReport, RelayStatus};
use thiserror::Error;

/// One end of a tunnel, until this is dropped.
#[derive(Debug)]
pub struct Tunnel {
    plane: Option<BondedPlane>,
    relay: Option<Relay>,
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
    /// It has ended.
    #[error(transparent)]
    Ended(#[from] ThreadEnded),
}

impl Tunnel {
    /// Begins to carry what the settings say. In `directory` changes of the system are written down, so that they can be
    /// undone after a crash.
    ///
    /// # Errors
    /// Settings that contradict each other, or the system refuses a device, a socket or a route.
    pub fn start(config: TunnelConfig, directory: RuntimeDir) -> Result<Self, TunnelError> {
        config.validate()?;
        config.check_host()?;
        let relay = config.relay_config().map(Relay::start).transpose()?;
        let has_device = config.has_device();
        let mut plane = has_device.then(|| config.bonded_config(directory)).transpose()?;
        if let (Some(relay), Some(handover)) = (&relay, plane.as_mut().and_then(other_stream_receiver)) {
            *handover = Some(Handover::new(relay.acceptor()));
        }
        Ok(Tunnel { plane: plane.map(BondedPlane::start).transpose()?, relay })
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

/// Who takes what comes to a listening end besides packets.
fn other_stream_receiver(plane: &mut BondedConfig) -> Option<&mut Option<Handover>> {
    match plane.transports.connections_mut() {
        Some(ConnectionConfig { role: ConnectionRole::Listen { handover, .. }, .. }) => Some(handover),
        _ => None,
    }
}
