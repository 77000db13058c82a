use super::peer_program::{FORWARDED_PORT, PeerProgram};
#[cfg(target_os = "linux")]
use kumade_tunnel::TransportMode;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// How packets get from site to site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Plane {
    /// The first path alone; the gateways are plain routers.
    Single,
    /// The paper's: the kernel divides packets in a fixed ratio.
    Direct,
    /// The same, with other addresses on each path.
    DirectNat,
    /// Encrypted and in order; each packet takes the path on which it arrives first.
    Bonded,
    /// Encrypted and in order, in a fixed ratio.
    BondedRatio,
    /// Encrypted and in order, in the ratio of what is measured.
    BondedWeighted,
    /// Encrypted, a copy on each path.
    BondedRedundant,
    /// Encrypted in datagrams or on many TCP connections (CUBIC) over the first path, whichever passes and performs.
    TunnelAuto,
    /// Encrypted on one TCP connection (CUBIC) over the first path.
    TunnelTcp,
    /// The same with BBR.
    TunnelTcpBbr,
    /// Encrypted on many TCP connections (CUBIC) over the first path, each packet on one that has room.
    TunnelRake,
    /// The same with BBR.
    TunnelRakeBbr,
    /// As `TunnelRake` for packets; TCP connections are ended at the gateways and relayed (CUBIC).
    TunnelRelay,
    /// The same with BBR.
    TunnelRelayBbr,
    /// Another program's forwarding or tunnel between the gateways, over TCP.
    PeerProgram(PeerProgram),
    /// No gateway's doing: the hosts have an address on each path, and use Multipath TCP (RFC 8684).
    Mptcp,
}

const PLANE_NAMES: [(Plane, &str, &str); 19] = [
    (Plane::Single, "single", "the first path alone, without kumade"),
    (Plane::Direct, "direct", "packets divided in a fixed ratio"),
    (Plane::DirectNat, "direct-nat", "the same with translated addresses"),
    (Plane::Bonded, "bonded", "encrypted and resequenced, by earliest arrival"),
    (Plane::BondedRatio, "bonded-ratio", "encrypted and resequenced, in a fixed ratio"),
    (Plane::BondedWeighted, "bonded-weighted", "encrypted and resequenced, by measured weights"),
    (Plane::BondedRedundant, "bonded-redundant", "encrypted, a copy on each path"),
    (Plane::TunnelAuto, "tunnel-auto", "encrypted, over UDP or many TCP connections, whichever performs"),
    (Plane::TunnelTcp, "tunnel-tcp", "encrypted on one TCP connection over the first path"),
    (Plane::TunnelTcpBbr, "tunnel-tcp-bbr", "the same with BBR below"),
    (Plane::TunnelRake, "tunnel-rake", "encrypted on many TCP connections over the first path"),
    (Plane::TunnelRakeBbr, "tunnel-rake-bbr", "the same with BBR below"),
    (Plane::TunnelRelay, "tunnel-relay", "TCP connections relayed over the first path"),
    (Plane::TunnelRelayBbr, "tunnel-relay-bbr", "the same with BBR below"),
    (Plane::PeerProgram(PeerProgram::SshForward), "ssh-forward", "OpenSSH forwards the port (-L), without kumade"),
    (Plane::PeerProgram(PeerProgram::SshTunnel), "ssh-tunnel", "OpenSSH's tunnel device (-w), without kumade"),
    (Plane::PeerProgram(PeerProgram::OpenVpn), "openvpn-tcp", "OpenVPN over TCP, without kumade"),
    (Plane::PeerProgram(PeerProgram::Vtun), "vtun", "VTun over TCP without encryption, without kumade"),
    (Plane::Mptcp, "mptcp", "the hosts' Multipath TCP, without kumade"),
];

impl Plane {
    /// The names of all planes, each with a line on what it does.
    pub fn plane_names() -> impl Iterator<Item = (&'static str, &'static str)> {
        PLANE_NAMES.iter().map(|(_, name, summary)| (*name, *summary))
    }

    /// As scenario files and the command line write it.
    pub fn name(self) -> &'static str {
        PLANE_NAMES.iter().find(|(plane, ..)| *plane == self).map_or("", |(_, name, _)| name)
    }

    /// Whether packets are divided in a ratio that the scenario states.
    pub fn takes_ratio(self) -> bool {
        matches!(self, Plane::Direct | Plane::DirectNat | Plane::BondedRatio)
    }

    /// Whether it has a form in virtual time: what the kernel's address translation costs, its Multipath TCP, tunnels that use
    /// datagrams and connections, and other programs are not simulated.
    pub fn has_virtual_form(self) -> bool {
        !matches!(self, Plane::DirectNat | Plane::Mptcp | Plane::TunnelAuto | Plane::PeerProgram(_))
    }

    /// What carries the packets of a tunnel, and with which congestion control.
    #[cfg(target_os = "linux")]
    pub fn outer_transport(self) -> Option<(TransportMode, &'static str)> {
        let connections = TransportMode::DEFAULT_CONNECTIONS;
        let (rake, relay) = (TransportMode::Rake(connections), TransportMode::Relay(connections));
        match self {
            Plane::TunnelAuto => Some((TransportMode::Auto(connections), "cubic")),
            Plane::TunnelTcp => Some((TransportMode::Tcp, "cubic")),
            Plane::TunnelTcpBbr => Some((TransportMode::Tcp, "bbr")),
            Plane::TunnelRake => Some((rake, "cubic")),
            Plane::TunnelRakeBbr => Some((rake, "bbr")),
            Plane::TunnelRelay => Some((relay, "cubic")),
            Plane::TunnelRelayBbr => Some((relay, "bbr")),
            _ => None,
        }
    }

    /// Whether TCP connections are ended at the gateways.
    pub(super) fn is_relayed(self) -> bool {
        matches!(self, Plane::TunnelRelay | Plane::TunnelRelayBbr)
    }

    /// Whose program it is, if it is not kumade's nor the kernel's.
    pub fn peer_program(self) -> Option<PeerProgram> {
        if let Plane::PeerProgram(peer) = self { Some(peer) } else { None }
    }

    /// Where a host has to connect to reach the far one, where connections end on their way: the port is also the far host's.
    pub(super) fn forwarding_address(self, far: Ipv4Addr) -> Option<SocketAddr> {
        match self {
            _ if self.is_relayed() => Some((far, FORWARDED_PORT).into()),
            _ => self.peer_program()?.forwarding_address(),
        }
    }

    /// The congestion control of the connections below, if there are any.
    #[cfg(target_os = "linux")]
    pub(super) fn lower_congestion_control(self) -> Option<&'static str> {
        self.outer_transport()
            .map(|(_, control)| control)
            .or(self.peer_program().map(|_| PeerProgram::CONGESTION_CONTROL))
    }

    /// Whether packets travel encrypted between the gateways.
    pub fn is_bonded(self) -> bool {
        matches!(self, Plane::Bonded | Plane::BondedRatio | Plane::BondedWeighted | Plane::BondedRedundant)
    }
}

impl FromStr for Plane {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = PLANE_NAMES.iter().find(|(_, name, _)| *name == text.trim());
        known.map(|(plane, ..)| *plane).ok_or_else(|| {
            let names: Vec<_> = Plane::plane_names().map(|(name, _)| name).collect();
            format!("`{text}` is no plane; choose one of {}", names.join(", "))
        })
    }
}

impl TryFrom<String> for Plane {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Plane> for String {
    fn from(plane: Plane) -> Self {
        plane.to_string()
    }
}

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_is_read() {
        for (name, _) in Plane::plane_names() {
            assert_eq!(name.parse::<Plane>().unwrap().to_string(), name);
        }
        assert!("bond".parse::<Plane>().unwrap_err().contains("direct-nat, bonded"));
    }
}
