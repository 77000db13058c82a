use crate::iproute2::{add_veth, run_ip, wait_for_cables};
use kumade_net::namespace::Namespace;
use kumade_net::{SetupError, interface};

/// Two hosts on either side of a third one that may forward between them, or emulate a link. Nothing is emulated here: the
/// cables are veth pairs, with offloads on as the kernel has them.
///
/// ```text
/// left: host ══ veth ══ middle: one, two ══ veth ══ right: host
/// ```
#[derive(Debug)]
pub struct VethHosts {
    /// Has the addresses 10.79.0.1/24 and fd79::1/64.
    pub left: Namespace,
    /// Has no addresses.
    pub middle: Namespace,
    /// Has the addresses 10.79.0.2/24 and fd79::2/64.
    pub right: Namespace,
}

impl VethHosts {
    /// The interface of either host.
    pub const DEVICE: &'static str = "host";
    /// The interfaces in the middle, to the left and to the right.
    pub const MIDDLE_INTERFACES: [&'static str; 2] = ["one", "two"];

    /// Builds them, with interfaces of this MTU in bytes, and waits until the cables carry packets.
    ///
    /// # Errors
    /// The system refuses a namespace or an interface, or iproute2 is missing.
    pub fn new(mtu: u16) -> Result<Self, SetupError> {
        let hosts = VethHosts { left: Namespace::new()?, middle: Namespace::new()?, right: Namespace::new()? };
        let [one, two] = Self::MIDDLE_INTERFACES;
        for (host, number, port) in [(&hosts.left, 1, one), (&hosts.right, 2, two)] {
            add_veth((host, Self::DEVICE), (&hosts.middle, port))?;
            run_ip(host, &["addr", "add", &format!("10.79.0.{number}/24"), "dev", Self::DEVICE])?;
            run_ip(host, &["-6", "addr", "add", &format!("fd79::{number}/64"), "dev", Self::DEVICE, "nodad"])?;
            for (inside, device) in [(host, Self::DEVICE), (&hosts.middle, port)] {
                run_ip(inside, &["link", "set", device, "mtu", &mtu.to_string()])?;
                inside.run(|| interface::set_up(device))??;
            }
        }
        wait_for_cables([&hosts.left, &hosts.middle, &hosts.right])?;
        Ok(hosts)
    }
}
