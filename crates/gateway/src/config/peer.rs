//! What a file may say of the gateways of remote sites, which are known by their keys.

use super::checks::endpoint;
use super::error::Fault;
use super::file::RemoteSection;
use super::types::{Path, Peer};
use kumade_net::interface::Family;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;

/// Of the gateway's UDP sockets; next to the port of measurements.
const DEFAULT_PORT: u16 = 7273;

pub(super) fn port(given: Option<&Spanned<u16>>) -> Result<u16, Fault> {
    match given {
        None => Ok(DEFAULT_PORT),
        Some(port) if *port.get_ref() > 0 => Ok(*port.get_ref()),
        Some(port) => Err(Fault::new(port.span(), "the other gateway has to know the port: give one from 1 to 65535")),
    }
}

/// The gateway of a remote site.
pub(super) fn peer(section: &RemoteSection, paths: &[Path], port: u16) -> Result<Peer, Fault> {
    let name = section.name.get_ref();
    let Some(key) = &section.public_key else {
        let problem = format!("remote `{name}` has no `public-key`: `kumade key public` prints it there");
        return Err(Fault::new(section.name.span(), problem));
    };
    if section.addresses.len() > paths.len() {
        let extra = &section.addresses[paths.len()];
        return Err(Fault::new(extra.span(), format!("more addresses than paths, of which there are {}", paths.len())));
    }
    let mut addresses = vec![None; paths.len()];
    for ((place, text), path) in addresses.iter_mut().zip(&section.addresses).zip(paths) {
        *place = endpoint(text, port)?;
        if let Some(address) = place {
            next_hop(path, *address).map_err(|problem| Fault::new(text.span(), problem))?;
        }
    }
    Ok(Peer {
        key: key
            .get_ref()
            .parse()
            .map_err(|error: kumade_noise_session::KeyError| Fault::new(key.span(), error.to_string()))?,
        psk_file: section.preshared_key.as_ref().map(PathBuf::from),
        addresses,
    })
}

/// A path with next hops has one for datagrams to this address.
fn next_hop(path: &Path, to: SocketAddr) -> Result<(), String> {
    let lacks = path.has_gateway() && path.gateway(Family::of(to.ip())).is_none();
    let problem =
        || format!("{} is not reached by path `{}`: add a gateway of its IP version there", to.ip(), path.name);
    if lacks { Err(problem()) } else { Ok(()) }
}
