//! What a file may say of the gateways of remote sites, which are known by their keys.

use super::checks::parse_endpoint;
use super::file::RemoteSection;
use super::types::{GatewayPath, RemotePeer};
use kumade_daemon::ConfigFault;
use kumade_daemon::parse_spanned;
use kumade_net::interface::Family;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;

/// Of the gateway's UDP sockets; next to the port of measurements.
pub(super) const DEFAULT_PORT: u16 = 7273;

pub(super) fn validate_port(given: Option<&Spanned<u16>>, usual: u16) -> Result<u16, ConfigFault> {
    match given {
        None => Ok(usual),
        Some(port) if *port.get_ref() > 0 => Ok(*port.get_ref()),
        Some(port) => {
            Err(ConfigFault::new(port.span(), "the other gateway has to know the port: give one from 1 to 65535"))
        }
    }
}

/// The gateway of a remote site.
pub(super) fn validate_peer(
    section: &RemoteSection,
    paths: &[GatewayPath],
    port: u16,
) -> Result<RemotePeer, ConfigFault> {
    let name = section.name.get_ref();
    let Some(key) = &section.public_key else {
        let problem = format!("remote `{name}` has no `public-key`: `kumade key public` prints it there");
        return Err(ConfigFault::new(section.name.span(), problem));
    };
    if section.addresses.len() > paths.len() {
        let extra = &section.addresses[paths.len()];
        return Err(ConfigFault::new(
            extra.span(),
            format!("more addresses than paths, of which there are {}", paths.len()),
        ));
    }
    let mut addresses = vec![None; paths.len()];
    for ((place, text), path) in addresses.iter_mut().zip(&section.addresses).zip(paths) {
        *place = parse_endpoint(text, port)?;
        if let Some(address) = place {
            check_next_hop(path, *address).map_err(|problem| ConfigFault::new(text.span(), problem))?;
        }
    }
    Ok(RemotePeer {
        key: parse_spanned(key, str::parse)?,
        psk_file: section.preshared_key.as_ref().map(PathBuf::from),
        addresses,
    })
}

/// A path with next hops has one for datagrams to this address.
fn check_next_hop(path: &GatewayPath, to: SocketAddr) -> Result<(), String> {
    let lacks = path.has_next_hop() && path.next_hop(Family::from_address(to.ip())).is_none();
    let problem =
        || format!("{} is not reached by path `{}`: add a gateway of its IP version there", to.ip(), path.name);
    if lacks { Err(problem()) } else { Ok(()) }
}
