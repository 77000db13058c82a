use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_net::nftables::Statement;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
};
use std::cell::RefCell;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Counts packets that arrive at a host, before anything is done to them, independently of any gateway.
pub struct Counter {
    socket: OwnedFd,
    /// Each with the number of its interface.
    conditions: Vec<(u32, Vec<Statement>)>,
    counts: RefCell<Vec<u64>>,
}

/// PACKET_OUTGOING of packet(7).
const OUTGOING: u8 = 4;

impl Counter {
    /// One count for each list of conditions, of which the first is the interface; others are on addresses. Ports that are not of
    /// `Sites::send` do not disturb: nothing else is sent.
    pub fn new(inside: &Namespace, conditions: &[Vec<Statement>]) -> Self {
        let open = || {
            let socket =
                socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_NONBLOCK, SockProtocol::EthAll)
                    .unwrap();
            setsockopt(&socket, sockopt::RcvBuf, &(8 << 20)).unwrap();
            let split = |conditions: &Vec<Statement>| match &conditions[0] {
                Statement::InputInterface(name) => (interface::index(name).unwrap(), conditions[1..].to_vec()),
                other => panic!("{other} is no interface"),
            };
            let counts = RefCell::new(vec![0; conditions.len()]);
            Counter { socket, conditions: conditions.iter().map(split).collect(), counts }
        };
        inside.run(open).unwrap()
    }

    pub fn packets(&self) -> Vec<u64> {
        let mut counts = self.counts.borrow_mut();
        // The longest addresses end there.
        let mut headers = [0; 40];
        while let Ok((_, Some(from))) = recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut headers) {
            if from.pkttype() == OUTGOING {
                continue;
            }
            for ((interface, conditions), count) in self.conditions.iter().zip(counts.iter_mut()) {
                *count += u64::from(
                    from.ifindex() == *interface as usize && conditions.iter().all(|one| meets(&headers, one)),
                );
            }
        }
        counts.clone()
    }
}

/// Whether the packet that begins so meets a condition.
fn meets(headers: &[u8; 40], condition: &Statement) -> bool {
    let v4 = |place: usize| IpAddr::from(<[u8; 4]>::try_from(&headers[place..place + 4]).unwrap());
    let v6 = |place: usize| IpAddr::from(<[u8; 16]>::try_from(&headers[place..place + 16]).unwrap());
    let (source, destination) = match headers[0] >> 4 {
        4 => (v4(12), v4(16)),
        6 => (v6(8), v6(24)),
        // Not IP.
        _ => return false,
    };
    match condition {
        Statement::Source(network) => network.contains(&source),
        Statement::Destination(network) => network.contains(&destination),
        other => panic!("{other} is no condition on addresses"),
    }
}
