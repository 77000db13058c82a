//! The keys of a gateway, from the files that its configuration names.

use crate::key;
use kumade_daemon::RuntimeDir;
use kumade_gateway::GatewayConfig;
use kumade_gateway::config::{BondedSettings, RemotePeer, SessionsConfig};
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::BondedConfig;

/// That of its file.
///
/// # Errors
/// The file cannot be read.
pub fn measurement_key(config: &GatewayConfig) -> anyhow::Result<Option<PresharedKey>> {
    config.measurement.key_file.as_deref().map(key::read_preshared_key).transpose()
}

/// With the keys of its files.
///
/// # Errors
/// A key file cannot be read.
pub fn bonded_config(config: &GatewayConfig, bonded: &BondedSettings) -> anyhow::Result<BondedConfig> {
    let identity = key::read_private_key(&bonded.key_file)?;
    let psks = bonded.peers.iter().map(preshared_key).collect::<anyhow::Result<_>>()?;
    Ok(kumade_gateway::bonded::plane_config(config, bonded, identity, psks, RuntimeDir::standard("kumade")))
}

/// This gateway's key, and those that it shares with remotes, in the order of the configuration.
///
/// # Errors
/// A key file cannot be read.
pub fn session_keys(sessions: &SessionsConfig) -> anyhow::Result<(PrivateKey, Vec<PresharedKey>)> {
    let identity = key::read_private_key(&sessions.key_file)?;
    let psk = |peer: &Option<RemotePeer>| peer.as_ref().map_or_else(|| Ok(PresharedKey::default()), preshared_key);
    Ok((identity, sessions.peers.iter().map(psk).collect::<anyhow::Result<_>>()?))
}

fn preshared_key(peer: &RemotePeer) -> anyhow::Result<PresharedKey> {
    peer.psk_file.as_deref().map_or_else(|| Ok(PresharedKey::default()), key::read_preshared_key)
}
