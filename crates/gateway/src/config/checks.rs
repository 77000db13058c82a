//! What parts of a file must be like.

use super::types::GatewayPath;
use ipnet::IpNet;
use kumade_daemon::ConfigFault;
use kumade_daemon::find_repeated;
use kumade_net::{ScopedAddress, ScopedAddressError, interface};
use std::net::{IpAddr, SocketAddr};
use toml::Spanned;

/// 0.0.0.0/0 and ::/0 of a remote mean all other addresses, and may contain networks; nothing else may.
pub(super) fn check_disjoint(networks: &[(Spanned<IpNet>, bool)]) -> Result<(), ConfigFault> {
    for (number, (one, one_is_remote)) in networks.iter().enumerate() {
        for (other, other_is_remote) in &networks[..number] {
            let (network, earlier) = (*one.get_ref(), *other.get_ref());
            let is_rest = |network: IpNet, remote: &bool| network.prefix_len() == 0 && *remote;
            let lengths = [network.prefix_len(), earlier.prefix_len()];
            let nested = (is_rest(network, one_is_remote) || is_rest(earlier, other_is_remote)) && lengths != [0, 0];
            if networks_overlap(network, earlier) && !nested {
                let problem = format!("{network} overlaps {earlier}: a host is in one network only");
                return Err(ConfigFault::new(one.span(), problem));
            }
        }
    }
    Ok(())
}

pub(super) fn networks_overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

pub(super) fn check_unique<'a>(
    names: impl Iterator<Item = &'a Spanned<String>>,
    kind: &str,
) -> Result<(), ConfigFault> {
    find_repeated(names).map_or(Ok(()), |name| {
        Err(ConfigFault::new(name.span(), format!("`{}` is given twice as {kind}", name.get_ref())))
    })
}

pub(super) fn find_path(name: &Spanned<String>, paths: &[GatewayPath]) -> Result<usize, ConfigFault> {
    paths.iter().position(|path| path.name == *name.get_ref()).ok_or_else(|| {
        let names: Vec<_> = paths.iter().map(|path| path.name.as_str()).collect();
        ConfigFault::new(name.span(), format!("no path is called `{}`: there are {}", name.get_ref(), names.join(", ")))
    })
}

pub(super) fn check_interface(name: &Spanned<String>, interfaces: &[String]) -> Result<String, ConfigFault> {
    let find = |name: &str| interfaces.iter().find(|known| *known == name).cloned();
    let known = find(name.get_ref());
    // It may be an alternative name, which others than netlink do not take.
    known.or_else(|| find(&interface::kernel_name(name.get_ref()).ok()?)).ok_or_else(|| {
        let problem = format!("this host has no interface `{}`: there are {}", name.get_ref(), interfaces.join(", "));
        ConfigFault::new(name.span(), problem)
    })
}

/// As in `10.1.0.0/24`; an address alone is a network of one host.
pub(super) fn parse_network(text: &Spanned<String>) -> Result<IpNet, ConfigFault> {
    let fault = |problem: String| ConfigFault::new(text.span(), format!("`{}` {problem}", text.get_ref()));
    let host = text.get_ref().parse::<IpAddr>().map(IpNet::from);
    let network: IpNet = host
        .or_else(|_| text.get_ref().parse())
        .map_err(|_| fault("is no network: write it like 10.1.0.0/24 or fd00:1::/64".into()))?;
    if network.addr() != network.network() {
        return Err(fault(format!("names one host of a network: write {}", network.trunc())));
    }
    Ok(network)
}

/// An address, perhaps with a port; empty for one that is not known.
pub(super) fn parse_endpoint(text: &Spanned<String>, port: u16) -> Result<Option<SocketAddr>, ConfigFault> {
    let written = text.get_ref();
    if written.is_empty() {
        return Ok(None);
    }
    let (address, own_port) = ScopedAddress::parse_with_port(written).map_err(|error| {
        let problem = match error {
            ScopedAddressError::Malformed(_) => {
                format!("`{written}` is no address: write it like 192.0.2.1 or [2001:db8::1]:{port}")
            }
            error => error.to_string(),
        };
        ConfigFault::new(text.span(), problem)
    })?;
    Ok(Some(address.with_port(own_port.unwrap_or(port))))
}
