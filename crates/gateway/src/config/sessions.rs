//! What the `[sessions]` section and the remotes with sessions may say.

use super::file::{ConfigFile, RemoteSection, SessionsSection};
use super::peer::{DEFAULT_PORT, validate_peer, validate_port};
use super::types::{GatewayPath, RemotePeer, SessionsConfig};
use kumade_daemon::ConfigFault;
use kumade_daemon::parse_spanned;
use kumade_multipath::PathId;
use kumade_multipath::nat_session::NatConfig;
use kumade_units::{Span, parse};
use std::ops::RangeInclusive;
use std::path::PathBuf;

const MAX_SESSIONS_RANGE: RangeInclusive<usize> = 1..=65_536;
/// Longer than flows that pass undivided are remembered, so that none begins again that has just ended.
const MIN_IDLE_TIMEOUT: Span = Span::from_secs(3);
const NO_SESSIONS_MESSAGE: &str = "only the bonded plane and remotes with `sessions = true` have keys and remote gateways: set one of \
                           these";

/// None where no remote has sessions.
pub(super) fn validate_sessions(
    file: &ConfigFile,
    paths: &[GatewayPath],
) -> Result<Option<SessionsConfig>, ConfigFault> {
    let with = file.remote.iter().filter_map(|remote| remote.sessions.as_ref()).find(|sessions| *sessions.get_ref());
    match (&file.sessions, with) {
        (None, None) => {
            file.remote.iter().try_for_each(check_no_session_keys)?;
            Ok(None)
        }
        (Some(section), None) => Err(ConfigFault::new(
            section.key.span(),
            "no [[remote]] has `sessions = true`: set it where flows are to have them",
        )),
        (None, Some(flag)) => {
            Err(ConfigFault::new(flag.span(), "no [sessions]: give `key`, the file of this gateway's private key"))
        }
        (Some(section), Some(flag)) => {
            check_locals_have_networks(file)?;
            if paths.len() > PathId::MAX_PATHS {
                let problem = format!("more than {} paths: sessions have no numbers for them", PathId::MAX_PATHS);
                return Err(ConfigFault::new(flag.span(), problem));
            }
            let port = validate_port(section.port.as_ref(), DEFAULT_PORT)?;
            let peers = file
                .remote
                .iter()
                .map(|remote| validate_remote_gateway(remote, paths, port))
                .collect::<Result<Vec<_>, _>>()?;
            check_keys_differ(file, &peers)?;
            let key_file = PathBuf::from(section.key.get_ref());
            Ok(Some(SessionsConfig { key_file, port, limits: validate_limits(section)?, peers }))
        }
    }
}

fn validate_limits(section: &SessionsSection) -> Result<NatConfig, ConfigFault> {
    let mut limits = NatConfig::default();
    if let Some(text) = &section.idle {
        let idle = parse_spanned(text, parse::span)?;
        if idle < MIN_IDLE_TIMEOUT {
            return Err(ConfigFault::new(text.span(), "the idle time must be at least 3 s"));
        }
        limits.idle_timeout = idle;
    }
    if let Some(max) = &section.max_sessions {
        if !MAX_SESSIONS_RANGE.contains(max.get_ref()) {
            let problem =
                format!("there can be {} to {} sessions", MAX_SESSIONS_RANGE.start(), MAX_SESSIONS_RANGE.end());
            return Err(ConfigFault::new(max.span(), problem));
        }
        limits.max_sessions = *max.get_ref();
    }
    Ok(limits)
}

/// Remote gateways get no packets to hosts that are not listed.
fn check_locals_have_networks(file: &ConfigFile) -> Result<(), ConfigFault> {
    match file.local.iter().find(|local| local.networks.is_empty()) {
        Some(local) => {
            let problem = "list the local hosts' `networks`: sessions are for these only";
            Err(ConfigFault::new(local.interface.span(), problem))
        }
        None => Ok(()),
    }
}

fn check_keys_differ(file: &ConfigFile, peers: &[Option<RemotePeer>]) -> Result<(), ConfigFault> {
    let key = |peer: &Option<RemotePeer>| peer.as_ref().map(|peer| peer.key);
    for (place, remote) in file.remote.iter().enumerate() {
        if let (Some(own), Some(text)) = (key(&peers[place]), &remote.public_key)
            && peers[..place].iter().any(|earlier| key(earlier) == Some(own))
        {
            let problem = "another remote has this key: list the networks of one gateway in one [[remote]]";
            return Err(ConfigFault::new(text.span(), problem));
        }
    }
    Ok(())
}

fn validate_remote_gateway(
    section: &RemoteSection,
    paths: &[GatewayPath],
    port: u16,
) -> Result<Option<RemotePeer>, ConfigFault> {
    if section.sessions.as_ref().is_some_and(|sessions| *sessions.get_ref()) {
        return validate_peer(section, paths, port).map(Some);
    }
    check_no_session_keys(section).map(|()| None)
}

fn check_no_session_keys(section: &RemoteSection) -> Result<(), ConfigFault> {
    match section.public_key.as_ref().or(section.addresses.first()) {
        Some(text) => Err(ConfigFault::new(text.span(), NO_SESSIONS_MESSAGE)),
        None => Ok(()),
    }
}
