use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Another program that carries packets or connections over TCP, to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerProgram {
    /// OpenSSH's forwarding of a port, as in the paper: connections end at the gateways.
    SshForward,
    /// OpenSSH's tunnel device.
    SshTunnel,
    /// OpenVPN over TCP.
    OpenVpn,
    /// VTun over TCP, without encryption.
    Vtun,
}

const PROGRAM_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The port that is forwarded: at the left gateway, and at the far host.
pub(super) const FORWARDED_PORT: u16 = 9001;
/// The left gateway as its host sees it.
pub(super) const LEFT_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

impl PeerProgram {
    /// The congestion control of its connection.
    pub(super) const CONGESTION_CONTROL: &str = "cubic";

    /// Where the near host connects to be forwarded.
    pub(super) fn forwarding_address(self) -> Option<SocketAddr> {
        (self == PeerProgram::SshForward).then(|| (LEFT_GATEWAY, FORWARDED_PORT).into())
    }

    fn programs(self) -> &'static [&'static str] {
        match self {
            PeerProgram::SshForward | PeerProgram::SshTunnel => &["ssh", "sshd", "ssh-keygen"],
            PeerProgram::OpenVpn => &["openvpn"],
            PeerProgram::Vtun => &["vtund"],
        }
    }

    /// Why it cannot be run on this host, if it cannot.
    pub(crate) fn missing_requirement(self) -> Option<String> {
        let absent = self.programs().iter().find(|name| find_program(name).is_none());
        let absent = absent.map(|name| format!("{self}: `{name}` is not installed"));
        absent.or_else(|| (!is_root()).then(|| format!("{self} takes root, and a user namespace is not enough")))
    }
}

/// Whether all users' ids are this process's to take, as daemons do that change theirs.
fn is_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let count = map.split_whitespace().nth(2).and_then(|count| count.parse::<u64>().ok());
    map.split_whitespace().next() == Some("0") && count.is_some_and(|count| count > 1)
}

/// Where a program is; daemons are often outside an ordinary user's PATH.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    PROGRAM_DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists())
}

impl fmt::Display for PeerProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerProgram::SshForward | PeerProgram::SshTunnel => "OpenSSH",
            PeerProgram::OpenVpn => "OpenVPN",
            PeerProgram::Vtun => "VTun",
        })
    }
}
