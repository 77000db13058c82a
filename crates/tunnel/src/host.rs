//! What this host refuses, before anything is begun.

use crate::config::{TransportMode, TunnelConfig};
use ipnet::IpNet;
use kumade_net::interface_address::{InterfaceAddress, interface_addresses};
use kumade_net::tcp::RtoLimits;
use kumade_net::{SetupError, congestion};
use kumade_units::Span;
use socket2::{Domain, Socket, Type};
use std::io;
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
        let opens_connections = self.transport != TransportMode::Udp || !self.has_device();
        match Socket::new(Domain::IPV4, Type::STREAM, None) {
            Ok(socket) if opens_connections => self.check_connection_options(&socket),
            _ => Ok(()),
        }
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
