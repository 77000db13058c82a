//! What this host refuses, before anything is begun.

use crate::config::{TransportMode, TunnelConfig, TunnelEnd};
use ipnet::IpNet;
use kumade_net::forwarding::{MissingForwarding, has_strict_reverse_path_filter, missing_forwarding};
use kumade_net::interface::{self, Family};
use kumade_net::interface_address::{InterfaceAddress, interface_addresses};
use kumade_net::tcp::RtoLimits;
use kumade_net::{SetupError, congestion, is_address_gone, sysctl};
use kumade_units::Span;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::IpAddr;
use thiserror::Error;

/// Settings that cannot be on this host.
#[derive(Debug, Error)]
pub enum HostRefusal {
    /// The tunnel's address is in a network of an interface.
    #[error(
        "the tunnel's address {address} is of the network of {interface}, which has {other}: give it one of a network of its own, \
         like 10.77.0.1/24"
    )]
    TakenNetwork {
        /// As given.
        address: IpNet,
        /// The interface's name.
        interface: String,
        /// Its own address.
        other: IpNet,
    },
    /// Somebody else has the address where this end is to wait.
    #[error("{address} is no address of this host, so that nothing can wait there: `ip address` lists those that are")]
    ForeignAddress {
        /// As given.
        address: IpAddr,
    },
    /// There is no such congestion control.
    #[error(transparent)]
    CongestionControl(SetupError),
    /// The kernel takes no such timeout.
    #[error(
        "this kernel refuses a minimum retransmission timeout of {wanted} ({cause}): give --min-rto {}ms or more, or 0 for the \
         system's",
        .least.as_nanos() / 1_000_000
    )]
    MinRto {
        /// As given.
        wanted: Span,
        /// The least that it takes, in whole milliseconds.
        least: Span,
        /// Its answer.
        cause: io::Error,
    },
}

/// The greatest timeout that the kernel takes (`TCP_RTO_MIN_US`).
const MAX_MIN_RTO_MILLIS: i64 = 200;

/// Whether reverse path filtering sees the marks of packets.
const VALID_MARKS_KEY: &str = "net.ipv4.conf.all.src_valid_mark";

/// Whether packets are filtered by their sources without regard to their marks, and this cannot be changed.
fn is_mark_ignored() -> bool {
    let is_strict = |interfaces: Vec<String>| interfaces.iter().any(|name| has_strict_reverse_path_filter(name));
    sysctl::read_number(VALID_MARKS_KEY) == Some(0)
        && sysctl::is_read_only(VALID_MARKS_KEY)
        && interface::names().is_ok_and(is_strict)
}

impl TunnelConfig {
    /// Whether this host takes the settings.
    ///
    /// # Errors
    /// What it refuses, and what to try.
    pub fn check_host(&self) -> Result<(), HostRefusal> {
        if self.has_device() {
            // Without a list, nothing is known to be wrong.
            self.check_addresses(&interface_addresses().unwrap_or_default())?;
        }
        self.check_listened_addresses()?;
        let opens_connections = self.transport != TransportMode::Udp || !self.has_device();
        match Socket::new(Domain::IPV4, Type::STREAM, None) {
            Ok(socket) if opens_connections => self.check_connection_options(&socket),
            _ => Ok(()),
        }
    }

    /// What is in the way of packets on this host, and what to try. Nothing is changed.
    pub fn host_warnings(&self) -> Vec<String> {
        if !self.has_device() {
            return Vec::new();
        }
        let is_gone_through = match &self.end {
            TunnelEnd::Listen(_) => true,
            TunnelEnd::Connect(_) => !self.relayed_connections.sources.is_empty(),
        };
        let families = self.addresses.iter().map(|own| Family::from_address(own.addr()));
        let families: Vec<_> = families.filter(|_| is_gone_through).collect();
        let warning = |missing: &MissingForwarding| {
            let MissingForwarding { version, key } = missing;
            format!(
                "this host does not forward {version} packets, so that only its own pass the tunnel, and the other ends reach \
                 nothing behind it: `sysctl -w {key}=1` changes that"
            )
        };
        let mut warnings: Vec<_> = missing_forwarding(&families).iter().map(warning).collect();
        if !self.network_routes().is_empty() && is_mark_ignored() {
            warnings.push(format!(
                "reverse path filtering takes for forged what arrives beside a tunnel that takes all traffic, and this system lets \
                 nobody change {VALID_MARKS_KEY}: set it to 1 where this system is started from"
            ));
        }
        warnings
    }

    fn check_addresses(&self, known: &[InterfaceAddress]) -> Result<(), HostRefusal> {
        for address in &self.addresses {
            let is_same = |other: &&InterfaceAddress| {
                other.interface != self.device
                    && (other.address.addr() == address.addr() || other.address.trunc() == address.trunc())
            };
            if let Some(InterfaceAddress { interface, address: other, .. }) = known.iter().find(is_same) {
                let (interface, other) = (interface.clone(), *other);
                return Err(HostRefusal::TakenNetwork { address: *address, interface, other });
            }
        }
        Ok(())
    }

    /// Where it waits for others, and for local programs.
    fn check_listened_addresses(&self) -> Result<(), HostRefusal> {
        let own = match &self.end {
            TunnelEnd::Listen(address) => Some(address.ip()),
            TunnelEnd::Connect(_) => None,
        };
        let forwards = self.relayed_connections.forwards.iter().map(|forward| forward.listen.ip());
        let mut listened = own.into_iter().chain(forwards);
        let is_foreign = |address: &IpAddr| !address.is_unspecified() && is_address_gone(*address);
        listened.find(is_foreign).map_or(Ok(()), |address| Err(HostRefusal::ForeignAddress { address }))
    }

    fn check_connection_options(&self, socket: &Socket) -> Result<(), HostRefusal> {
        if let Some(name) = &self.congestion_control {
            congestion::set(socket, name).map_err(HostRefusal::CongestionControl)?;
        }
        let apply = |min| RtoLimits { min: Some(min), max: None }.apply(socket);
        let Some((wanted, cause)) = self.tuning.rto.min.and_then(|wanted| Some((wanted, apply(wanted).err()?))) else {
            return Ok(());
        };
        let least = (1..MAX_MIN_RTO_MILLIS).map(Span::from_millis).find(|least| apply(*least).is_ok());
        Err(HostRefusal::MinRto { wanted, least: least.unwrap_or(Span::from_millis(MAX_MIN_RTO_MILLIS)), cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::config;

    #[test]
    fn an_address_of_the_lan_is_refused_and_the_devices_own_is_not() {
        let known = |interface: &str, address: &str| InterfaceAddress {
            interface: interface.into(),
            address: address.parse().unwrap(),
            far_end: None,
        };
        let check = |own: &str, known: &[InterfaceAddress]| {
            let addresses = vec![own.parse().unwrap()];
            TunnelConfig { addresses, ..config(TransportMode::Udp, "10.77.0.2") }.check_addresses(known)
        };
        for own in ["192.0.2.9/24", "192.0.2.7/32"] {
            let refused =
                check(own, &[known("lo", "127.0.0.1/8"), known("eth0", "192.0.2.7/24")]).unwrap_err().to_string();
            assert!(refused.contains("eth0") && refused.contains("192.0.2.7/24"), "{refused}");
        }
        assert!(check("10.77.0.1/24", &[known("eth0", "10.0.0.1/8")]).is_ok());
        assert!(check("10.77.0.1/24", &[known("tunnel", "10.77.0.1/24")]).is_ok());
    }

    #[test]
    fn a_congestion_control_that_is_none_and_a_timeout_that_the_kernel_refuses_are_told() {
        let own = config(TransportMode::Tcp, "10.77.0.2");
        let unknown = TunnelConfig { congestion_control: Some("nosuch".into()), ..own.clone() };
        let refused = unknown.check_host().unwrap_err().to_string();
        assert!(refused.contains("nosuch") && refused.contains("tcp_available_congestion_control"), "{refused}");
        // At 250 or 100 ticks a second the kernel takes no microsecond.
        let mut short = own.clone();
        short.tuning.rto.min = Some(Span::from_micros(1));
        if let Err(refused) = short.check_host() {
            let HostRefusal::MinRto { least, .. } = &refused else { panic!("{refused}") };
            assert!(
                refused.to_string().contains(&format!("--min-rto {}ms or more", least.as_nanos() / 1_000_000)),
                "{refused}"
            );
            short.tuning.rto.min = Some(*least);
            assert!(short.check_host().is_ok());
        }
        assert!(own.check_host().is_ok());
    }
}
