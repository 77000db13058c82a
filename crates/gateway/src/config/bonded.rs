//! What the `[bonded]` section and the remotes of a bonded plane may say.

use super::checks::unique;
use super::error::Fault;
use super::file::{BondedSection, ChoiceName, ConfigFile, RemoteSection};
use super::peer::{peer, port};
use super::types::{Bonded, Path, Peer};
use ipnet::IpNet;
use kumade_multipath::{PathId, PathPolicy, ShareUnit, UnorderedFlows};
use kumade_overlay_io::MAX_THREADS;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

const DEFAULT_DEVICE: &str = "kumade0";
/// What IPv6 needs (RFC 8200 §5), and what a TUN device takes.
const MTUS: std::ops::RangeInclusive<u16> = 1280..=9000;
const MAX_DSCP: u8 = 63;

pub(super) fn bonded(file: &ConfigFile, paths: &[Path]) -> Result<Bonded, Fault> {
    let name = &file.gateway.name;
    let Some(section) = &file.bonded else {
        return Err(Fault::new(name.span(), "no [bonded]: give `key`, the file of this gateway's private key"));
    };
    if paths.len() > PathId::MAX_PATHS {
        let problem = format!("more than {} paths: the bonded plane has no numbers for them", PathId::MAX_PATHS);
        return Err(Fault::new(name.span(), problem));
    }
    if let Some(translation) = file.translation.first() {
        let problem = "the bonded plane carries addresses as they are: leave [[translation]] out";
        return Err(Fault::new(translation.network.span(), problem));
    }
    unique(file.path.iter().map(|path| &path.interface), "interface of [[path]]: the bonded plane has one port there")?;
    unique(file.remote.iter().filter_map(|remote| remote.public_key.as_ref()), "public-key")?;
    let port = port(section.port.as_ref())?;
    let peers = file.remote.iter().map(|remote| remote_gateway(remote, paths, port)).collect::<Result<Vec<_>, _>>()?;
    same_versions(file, &peers)?;
    Ok(Bonded {
        key_file: PathBuf::from(section.key.get_ref()),
        device: section.device.clone().unwrap_or_else(|| DEFAULT_DEVICE.into()),
        mtu: mtu(section)?,
        port,
        threads: threads(section, port)?,
        addresses: section.addresses.iter().map(address).collect::<Result<_, _>>()?,
        choice: choice(section, paths),
        unordered: unordered(section)?,
        peers,
    })
}

/// As in `10.9.0.1/24`.
fn address(text: &Spanned<String>) -> Result<IpNet, Fault> {
    let problem = format!("`{}` is no address with its network: write it like 10.9.0.1/24", text.get_ref());
    text.get_ref().parse().map_err(|_| Fault::new(text.span(), problem))
}

fn mtu(section: &BondedSection) -> Result<Option<u16>, Fault> {
    match &section.mtu {
        None => Ok(None),
        Some(mtu) if MTUS.contains(mtu.get_ref()) => Ok(Some(*mtu.get_ref())),
        Some(mtu) => Err(Fault::new(mtu.span(), format!("an MTU is from {} to {} bytes", MTUS.start(), MTUS.end()))),
    }
}

fn threads(section: &BondedSection, port: u16) -> Result<usize, Fault> {
    let Some(threads) = &section.threads else { return Ok(1) };
    let count = *threads.get_ref();
    if !(1..=MAX_THREADS).contains(&count) {
        return Err(Fault::new(threads.span(), format!("packets are carried by 1 to {MAX_THREADS} threads")));
    }
    if usize::from(port) + count > 1 << 16 {
        let problem = format!("{count} threads need as many ports from {port} on: give a lower `port`");
        return Err(Fault::new(threads.span(), problem));
    }
    Ok(count)
}

fn choice(section: &BondedSection, paths: &[Path]) -> PathPolicy {
    match section.choice {
        ChoiceName::Ratio => {
            let shares = paths.iter().map(|path| path.weight).collect();
            PathPolicy::Ratio { shares, unit: ShareUnit::Packets }
        }
        ChoiceName::Weighted => PathPolicy::Weighted,
        ChoiceName::EarliestArrival => PathPolicy::EarliestArrival,
        ChoiceName::Redundant => PathPolicy::Redundant,
        ChoiceName::Pinned => PathPolicy::Pinned,
    }
}

fn unordered(section: &BondedSection) -> Result<UnorderedFlows, Fault> {
    if let Some(dscp) = section.unordered_dscps.iter().find(|dscp| *dscp.get_ref() > MAX_DSCP) {
        return Err(Fault::new(dscp.span(), format!("a DSCP is from 0 to {MAX_DSCP}")));
    }
    let dscps = section.unordered_dscps.iter().map(|dscp| *dscp.get_ref()).collect();
    Ok(UnorderedFlows { dscps, ports: section.unordered_ports.clone() })
}

fn remote_gateway(section: &RemoteSection, paths: &[Path], port: u16) -> Result<Peer, Fault> {
    let name = section.name.get_ref();
    if section.paths.is_some() {
        let problem = format!("remote `{name}`: both gateways number all paths alike: leave `paths` out");
        return Err(Fault::new(section.name.span(), problem));
    }
    if let Some(sessions) = &section.sessions {
        return Err(Fault::new(sessions.span(), "the bonded plane carries all flows: leave `sessions` out"));
    }
    peer(section, paths, port)
}

/// The datagrams of all remote gateways on a path are of one IP version, since a path has one socket.
fn same_versions(file: &ConfigFile, peers: &[Peer]) -> Result<(), Fault> {
    let mut versions = BTreeMap::new();
    for (section, peer) in file.remote.iter().zip(peers) {
        for (path, (address, text)) in peer.addresses.iter().zip(&section.addresses).enumerate() {
            let Some(address) = address else { continue };
            if *versions.entry(path).or_insert(address.is_ipv4()) != address.is_ipv4() {
                let problem = format!("{} is of another IP version than other addresses on that path", address.ip());
                return Err(Fault::new(text.span(), problem));
            }
        }
    }
    Ok(())
}
