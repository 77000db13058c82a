//! Cables, addresses and routes of the sites.

use crate::device::Device;
use crate::iproute2::{add_veth, run_ip};
use crate::namespaces::eventually;
use ipnet::IpNet;
use kumade_net::namespace::Namespace;
use kumade_net::{SetupError, interface};
use std::fs;
use std::io;
use std::net::Ipv4Addr;

/// The interface between host and gateway, at both of them.
pub(super) const LAN_INTERFACE: &str = "lan";
/// The first of the routing tables in which the left gateway has a route for each path.
const FIRST_TABLE: usize = 101;

/// The interface of a path at both gateways.
pub(super) fn path_name(place: usize) -> String {
    format!("path{}", place + 1)
}

/// The address of the left (1) or right (2) gateway on a path.
pub(super) fn gateway_address(place: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, place as u8 + 1, end)
}

/// The address of a host of the left (1) or right (2) site whose packets take that path.
pub(super) fn address_on(place: usize, site: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, site, place as u8 + 1, 2)
}

/// Joins a host to its gateway. The host has an address for what the gateway divides, and one for each path.
pub(super) fn build_site(
    host: &Namespace,
    gateway: &Namespace,
    site: u8,
    paths: usize,
    packets_as_on_the_wire: bool,
) -> Result<(), SetupError> {
    gateway.run(enable_forwarding)??;
    create_veth(host, gateway, LAN_INTERFACE, packets_as_on_the_wire)?;
    for (inside, end) in [(host, 2), (gateway, 1)] {
        for third in 0..=paths as u8 {
            let address = network_of_address(Ipv4Addr::new(10, site, third, end));
            inside.run(|| interface::add_address(LAN_INTERFACE, address))??;
        }
    }
    run_ip(host, &["route", "add", "default", "via", &Ipv4Addr::new(10, site, 0, 1).to_string()]).map(drop)
}

/// The device of an emulated path at the gateway that the calling thread is in.
pub(super) fn path_device(place: usize) -> Result<Device, SetupError> {
    Device::new(&path_name(place), None, None)
}

/// Gives the gateways their addresses on the paths, and routes: everything by the first path, and what has a host's address
/// on a path by that one.
pub(super) fn configure_paths(left: &Namespace, right: &Namespace, paths: usize) -> Result<(), SetupError> {
    for place in 0..paths {
        let device = path_name(place);
        for (gateway, end) in [(left, 1), (right, 2)] {
            gateway.run(|| interface::add_address(&device, network_of_address(gateway_address(place, end))))??;
        }
        let far = gateway_address(place, 2).to_string();
        let (own, table) =
            (network_of_address(address_on(place, 1)).trunc().to_string(), (FIRST_TABLE + place).to_string());
        run_ip(left, &["route", "add", "default", "via", &far, "dev", &device, "table", &table])?;
        run_ip(left, &["rule", "add", "iif", LAN_INTERFACE, "from", &own, "table", &table])?;
        run_ip(right, &["route", "add", &own, "via", &gateway_address(place, 1).to_string(), "dev", &device])?;
    }
    for (gateway, far_site, end) in [(left, 2, 2), (right, 1, 1)] {
        let far = network_of_address(Ipv4Addr::new(10, far_site, 0, 0)).to_string();
        run_ip(gateway, &["route", "add", &far, "via", &gateway_address(0, end).to_string()])?;
    }
    Ok(())
}

/// A veth pair with the same name at both ends, switched on. With `packets_as_on_the_wire` its ends neither segment nor
/// merge, so that what passes it are packets of the MTU's length and not batches.
pub(super) fn create_veth(
    one: &Namespace,
    other: &Namespace,
    name: &str,
    packets_as_on_the_wire: bool,
) -> Result<(), SetupError> {
    add_veth((one, name), (other, name))?;
    for inside in [one, other] {
        inside.run(|| {
            if packets_as_on_the_wire {
                interface::disable_offloads(name)?;
            }
            interface::set_up(name)
        })??;
    }
    // The kernel drops packets until it has noticed that the other end of the cable is up.
    let is_up = |inside: &Namespace| inside.run(|| interface::is_running(name)).unwrap_or(false);
    match eventually(|| is_up(one) && is_up(other)) {
        true => Ok(()),
        false => Err(SetupError::new(format!("switch the interface {name} on"), io::ErrorKind::TimedOut)),
    }
}

pub(super) fn enable_mptcp(a: &Namespace, b: &Namespace, paths: usize) -> Result<(), SetupError> {
    let setting = "/proc/sys/net/mptcp/enabled";
    let absent = |error| {
        SetupError::new(format!("set {setting}"), error)
            .with_hint("this kernel has no Multipath TCP: run the experiment without `mptcp`")
    };
    for host in [a, b] {
        host.run(|| fs::write(setting, "1"))?.map_err(absent)?;
        run_ip(host, &["mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"])?;
    }
    for place in 1..paths {
        let address = address_on(place, 1).to_string();
        run_ip(a, &["mptcp", "endpoint", "add", &address, "dev", LAN_INTERFACE, "subflow"])?;
    }
    Ok(())
}

/// A gateway forwards, and lets in what comes by another path than answers would take.
fn enable_forwarding() -> Result<(), SetupError> {
    for (name, value) in [("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("conf/default/rp_filter", "0")] {
        let path = format!("/proc/sys/net/ipv4/{name}");
        fs::write(&path, value).map_err(|error| {
            SetupError::new(format!("set {path}"), error).with_hint("the lab needs it writable in its namespaces")
        })?;
    }
    Ok(())
}

/// The network of an address, of 256.
fn network_of_address(address: Ipv4Addr) -> IpNet {
    IpNet::new_assert(address.into(), 24)
}
