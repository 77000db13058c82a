//! What a file may say about measurements of the paths.

use super::checks::parse_endpoint;
use super::file::{ConfigFile, RemoteSection, WeightsName};
use super::peer::validate_port;
use super::types::{MeasurementConfig, Plane, RemoteSite};
use kumade_daemon::ConfigFault;
use kumade_net::interface::Family;
use std::net::SocketAddr;
use std::path::PathBuf;

const NOT_MEASURED_MESSAGE: &str =
    "only measured weights need addresses to measure to: set weights = \"measured\" in [gateway]";

pub(super) fn validate_measurement(file: &ConfigFile) -> Result<MeasurementConfig, ConfigFault> {
    let section = file.measure.clone().unwrap_or_default();
    let port = validate_port(section.port.as_ref(), kumade_serve::DEFAULT_PORT)?;
    Ok(MeasurementConfig { key_file: section.key.map(PathBuf::from), is_answering: section.answer, port })
}

/// Where the paths to each remote site are measured to, in the order of each site's paths; nowhere if empty.
pub(super) fn measurement_targets(
    file: &ConfigFile,
    remotes: &[RemoteSite],
    plane: &Plane,
    port: u16,
) -> Result<Vec<Vec<SocketAddr>>, ConfigFault> {
    if file.gateway.weights == WeightsName::Fixed {
        let given = file.remote.iter().flat_map(|remote| &remote.measure).next();
        return given.map_or(Ok(vec![Vec::new(); remotes.len()]), |text| {
            Err(ConfigFault::new(text.span(), NOT_MEASURED_MESSAGE))
        });
    }
    let sections = file.remote.iter().zip(remotes).enumerate();
    let targets = sections.map(|(place, (section, remote))| measurement_target(section, remote, place, plane, port));
    let targets: Vec<_> = targets.collect::<Result<_, _>>()?;
    if targets.iter().all(Vec::is_empty) {
        let problem =
            "nothing can be measured: give a [[remote]] the list `measure` of its server's address on each path";
        return Err(ConfigFault::new(file.gateway.name.span(), problem));
    }
    Ok(targets)
}

/// The gateways of a bonded plane are where measurements are answered, unless it is said where.
fn measurement_target(
    section: &RemoteSection,
    remote: &RemoteSite,
    place: usize,
    plane: &Plane,
    port: u16,
) -> Result<Vec<SocketAddr>, ConfigFault> {
    if let (Plane::Bonded(bonded), true) = (plane, section.measure.is_empty()) {
        let known: Option<Vec<_>> = bonded.peers[place].addresses.iter().copied().collect();
        return Ok(known.unwrap_or_default().into_iter().map(|peer| SocketAddr::new(peer.ip(), port)).collect());
    }
    let addresses = section.measure.iter().map(|text| {
        let empty = || ConfigFault::new(text.span(), "each path is measured, or none: give an address");
        parse_endpoint(text, port)?.ok_or_else(empty)
    });
    let addresses: Vec<_> = addresses.collect::<Result<_, _>>()?;
    if !addresses.is_empty() && addresses.len() != remote.paths.len() {
        let (name, paths) = (&remote.name, remote.paths.len());
        let problem = format!("remote `{name}` has {paths} paths: list as many addresses, in the paths' order");
        return Err(ConfigFault::new(section.measure[0].span(), problem));
    }
    let is_routed = |address: &SocketAddr| {
        remote.networks.iter().any(|network| Family::from_network(*network) == Family::from_address(address.ip()))
    };
    if let Some(address) = addresses.iter().find(|address| *plane == Plane::Direct && !is_routed(address)) {
        let problem = format!(
            "remote `{}` has no network of the IP version of {}: measure to an address of the other version",
            remote.name,
            address.ip()
        );
        return Err(ConfigFault::new(section.measure[0].span(), problem));
    }
    Ok(addresses)
}
