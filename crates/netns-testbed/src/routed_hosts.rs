//! Hosts behind routers, joined by veth pairs: what networks with the kernel's shapers are made of.

use crate::iproute2::{add_veth, run_in_namespace};
use crate::network::{Host, HostSpec, NetworkError};
use kumade_net::namespace::Namespace;
use kumade_net::{SetupError, interface};
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What the lines between hosts and routers, which are veth pairs, have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineSettings {
    /// In bytes of the longest IP packet.
    pub(crate) mtu: u16,
    /// Whether what a socket sends at once, up to 64 kB, passes the lines and routers as one packet of the kernel.
    pub(crate) offloads: bool,
}

/// The addresses of one end of line `line`.
pub(crate) fn line_end(line: u8, end: u8) -> HostSpec {
    let v6 = Ipv6Addr::new(0xfd78, 0, 0, line.into(), 0, 0, 0, end.into());
    let v4 = Ipv4Addr::new(10, 78, line, end);
    HostSpec { name: String::new(), v4, v6: Some(v6), second_v4: None, ect: None, access: Vec::new() }
}

/// Lets the calling thread's namespace forward packets.
pub(crate) fn enable_forwarding() -> Result<(), SetupError> {
    for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        let path = format!("/proc/sys/net/{name}");
        fs::write(&path, "1").map_err(|error| SetupError::new(format!("set {path}"), error))?;
    }
    Ok(())
}

/// A host behind its router, whose interface to it has the host's name.
pub(crate) fn attach_host(line: u8, name: &str, router: &Namespace, lines: LineSettings) -> Result<Host, NetworkError> {
    let namespace = Namespace::new()?;
    let own = line_end(line, 2);
    connect((&namespace, Host::DEVICE), (router, name), lines)?;
    configure_line(&namespace, Host::DEVICE, own.clone(), Some(line_end(line, 1)))?;
    configure_line(router, name, line_end(line, 1), None)?;
    let second = line_end(line, 3).v4;
    run_command(&namespace, &["ip", "addr", "add", &format!("{second}/24"), "dev", Host::DEVICE])?;
    Ok(Host { name: name.into(), v4: own.v4, second_v4: Some(second), v6: own.v6, namespace })
}

/// A cable between two namespaces.
pub(crate) fn connect(
    one: (&Namespace, &str),
    other: (&Namespace, &str),
    lines: LineSettings,
) -> Result<(), NetworkError> {
    add_veth(one, other)?;
    let prepare = |name: &str| {
        interface::set_mtu(name, lines.mtu)?;
        if !lines.offloads {
            interface::disable_offloads(name)?;
        }
        interface::set_up(name)
    };
    for (namespace, name) in [one, other] {
        namespace.run(|| prepare(name))??;
    }
    Ok(())
}

/// Gives the end of a line its addresses, and default routes by way of its router.
pub(crate) fn configure_line(
    inside: &Namespace,
    device: &str,
    own: HostSpec,
    gateway: Option<HostSpec>,
) -> Result<(), NetworkError> {
    let v6 = |spec: &HostSpec| spec.v6.map(|v6| v6.to_string()).unwrap_or_default();
    run_command(inside, &["ip", "addr", "add", &format!("{}/24", own.v4), "dev", device])?;
    run_command(inside, &["ip", "-6", "addr", "add", &format!("{}/64", v6(&own)), "dev", device, "nodad"])?;
    // Namespaces make none by themselves, and without one, a router asks no neighbour for whom it forwards (RFC 4861 §7.2.2).
    let [.., end] = own.v4.octets();
    run_command(inside, &["ip", "-6", "addr", "add", &format!("fe80::{end}/64"), "dev", device, "nodad"])?;
    if let Some(gateway) = gateway {
        run_command(inside, &["ip", "route", "add", "default", "via", &gateway.v4.to_string()])?;
        run_command(inside, &["ip", "-6", "route", "add", "default", "via", &v6(&gateway)])?;
    }
    Ok(())
}

/// Runs a command of iproute2 or nftables.
pub(crate) fn run_command(inside: &Namespace, words: &[&str]) -> Result<(), SetupError> {
    let hint = match words[0] {
        "nft" => "a policer needs nftables, and nf_tables in the kernel; the lab's own bottleneck does not",
        _ => {
            "the kernel's shapers need iproute2, and sch_htb, sch_tbf or sch_red in the kernel; the lab's own bottleneck does not"
        }
    };
    run_in_namespace(inside, words).map(drop).map_err(|error| error.with_hint(hint))
}
