//! Two sites, each with one host behind a gateway, joined by two paths.
//!
//! ```text
//! a: lan ══ lan: left gateway: path1, path2 ══ path1, path2: right gateway: lan ══ lan: b
//! ```

use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, eventually, run_ip, wait_for_cables};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

pub struct Sites {
    pub a: Namespace,
    pub left: Namespace,
    pub right: Namespace,
    pub b: Namespace,
}

pub const PATHS: [&str; 2] = ["path1", "path2"];

impl Sites {
    /// Hosts are 10.1.0.2 and fd01::2 left, 10.2.0.2 and fd02::2 right; the gateways are 10.9.N.1 and 10.9.N.2, fd09:N::1 and
    /// fd09:N::2 on path N. Without a gateway's doing, everything takes the first path.
    pub fn new() -> Self {
        let namespace = || Namespace::new().unwrap();
        let sites = Sites { a: namespace(), left: namespace(), right: namespace(), b: namespace() };
        for (host, gateway, site) in [(&sites.a, &sites.left, 1), (&sites.b, &sites.right, 2)] {
            connect((host, "lan"), (gateway, "lan"));
            for (inside, end) in [(host, 2), (gateway, 1)] {
                address(inside, "lan", &format!("10.{site}.0.{end}/24"), &format!("fd0{site}::{end}/64"));
            }
            route(host, "default", &format!("10.{site}.0.1"));
            route(host, "default", &format!("fd0{site}::1"));
            gateway.run(forward).unwrap();
        }
        for (number, path) in (1..).zip(PATHS) {
            connect((&sites.left, path), (&sites.right, path));
            for (gateway, end) in [(&sites.left, 1), (&sites.right, 2)] {
                address(gateway, path, &format!("10.9.{number}.{end}/24"), &format!("fd09:{number}::{end}/64"));
            }
        }
        for (gateway, site, end) in [(&sites.left, 2, 2), (&sites.right, 1, 1)] {
            route(gateway, &format!("10.{site}.0.0/24"), &format!("10.9.1.{end}"));
            route(gateway, &format!("fd0{site}::/64"), &format!("fd09:1::{end}"));
        }
        sites.settle();
        sites
    }

    /// The kernel drops packets until it has noticed that the other end of a cable is up.
    fn settle(&self) {
        wait_for_cables([&self.a, &self.left, &self.right, &self.b]).unwrap();
        for (from, to) in [(&self.a, "10.2.0.2"), (&self.a, "fd02::2")] {
            let far = self.b.run(|| UdpSocket::bind((to.parse::<IpAddr>().unwrap(), 7)).unwrap()).unwrap();
            far.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let near = from.run(|| socket(to.parse().unwrap())).unwrap();
            // Until the last one that was sent has come: no earlier one comes, and is counted, in the midst of a test.
            let mut number = 0_u64;
            let arrives = || {
                number += 1;
                let mut received = [0; 8];
                near.send_to(&number.to_be_bytes(), (to, 7)).is_ok()
                    && std::iter::from_fn(|| far.recv(&mut received).ok().map(|_| u64::from_be_bytes(received)))
                        .any(|received| received == number)
            };
            assert!(eventually(arrives), "{to} cannot be reached");
        }
    }

    /// Sends packets one after the other from a host to a port of the other, and checks that each arrives from that host's
    /// own address, unless it is said to come from another.
    #[allow(dead_code, reason = "not every test does")]
    pub fn send(&self, from: &Namespace, from_address: &str, to: &Namespace, to_address: &str, packets: usize) {
        let address: IpAddr = to_address.parse().unwrap();
        let far = to.run(|| UdpSocket::bind((address, 9)).unwrap()).unwrap();
        far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        let near = from.run(|| socket(address)).unwrap();
        for number in 0..packets {
            let data = (number as u64).to_be_bytes();
            near.send_to(&data, (address, 9)).unwrap();
            let mut buffer = [0; 9];
            let (length, source) = far.recv_from(&mut buffer).expect("a packet is lost");
            assert_eq!((&buffer[..length], source.ip()), (&data[..], from_address.parse().unwrap()));
            // The answer finds the way back.
            far.send_to(b"ok", source).unwrap();
            near.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
            let (_, answerer) = near.recv_from(&mut buffer).expect("an answer is lost");
            assert_eq!(answerer.ip(), address);
        }
    }
}

impl Sites {
    /// Sends so many bytes from `a` to `b` over TCP, by either IP version, and checks that they arrive unchanged.
    pub fn transfer(&self, bytes: usize) {
        let data: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
        for address in ["10.2.0.2", "fd02::2"] {
            let address = SocketAddr::new(address.parse().unwrap(), 9);
            let listener = self.b.run(|| TcpListener::bind(address).unwrap()).unwrap();
            let near = self.a.run(|| TcpStream::connect(address).unwrap()).unwrap();
            near.set_write_timeout(Some(TEST_DEADLINE)).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
            let mut received = Vec::new();
            thread::scope(|scope| {
                scope.spawn(|| (&near).write_all(&data).and_then(|()| near.shutdown(Shutdown::Write)).unwrap());
                far.read_to_end(&mut received).unwrap();
            });
            assert!(received == data);
        }
    }
}

#[allow(dead_code, reason = "not every test looks")]
pub fn is_up(inside: &Namespace, device: &str) -> bool {
    run_ip(inside, &["-o", "link", "show", device]).unwrap().contains("state UP")
}

fn socket(to: IpAddr) -> UdpSocket {
    UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap()
}

fn connect(one: (&Namespace, &str), other: (&Namespace, &str)) {
    run_ip(one.0, &["link", "add", one.1, "type", "veth", "peer", "name", other.1, "netns", &other.0.path()]).unwrap();
    for (inside, name) in [one, other] {
        inside.run(|| interface::set_up(name)).unwrap().unwrap();
    }
}

fn address(inside: &Namespace, device: &str, v4: &str, v6: &str) {
    run_ip(inside, &["addr", "add", v4, "dev", device]).unwrap();
    // A router asks for its neighbours from a link-local address, and these hosts have none by themselves.
    let end = v6.rsplit_once("::").map_or(v6, |(_, end)| end);
    for v6 in [v6, &format!("fe80::{end}")] {
        run_ip(inside, &["-6", "addr", "add", v6, "dev", device, "nodad"]).unwrap();
    }
}

fn route(inside: &Namespace, to: &str, gateway: &str) {
    let family = if gateway.contains(':') { "-6" } else { "-4" };
    run_ip(inside, &[family, "route", "add", to, "via", gateway]).unwrap();
}

fn forward() {
    for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
    }
}
