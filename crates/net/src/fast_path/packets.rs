//! The program in the kernel against a model that computes all checksums anew, on packets drawn at random.

use super::*;
use crate::namespace::Namespace;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;

/// TCX_NEXT and TC_ACT_REDIRECT of linux/bpf.h and linux/pkt_cls.h.
const PASS: i32 = -1;
const REDIRECT: i32 = 7;
const TCP: u8 = 6;
const UDP: u8 = 17;
const LOOPBACK: u32 = 1;
const MTU: usize = 1000;

/// A packet as a host sends it.
#[derive(Debug, Clone)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    hops: u8,
    tos: u8,
    /// As on links that carry UDP without one (RFC 8200, section 8.1).
    has_checksum: bool,
    is_fragment: bool,
    payload: Vec<u8>,
}

fn sum(octets: &[u8]) -> u32 {
    let words = octets.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    words.sum()
}

fn checksum(sums: u32) -> u16 {
    let folded = (sums & 0xffff) + (sums >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

impl Packet {
    fn encode_transport(&self) -> Vec<u8> {
        let mut segment = vec![0x12, 0x34, 0x56, 0x78];
        let place = match self.protocol {
            TCP => {
                segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
                16
            }
            _ => {
                segment.extend(((8 + self.payload.len()) as u16).to_be_bytes());
                segment.extend([0, 0]);
                6
            }
        };
        segment.extend(&self.payload);
        let addresses = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => [source.octets(), destination.octets()].concat(),
            (IpAddr::V6(source), IpAddr::V6(destination)) => [source.octets(), destination.octets()].concat(),
            _ => unreachable!("of one IP version"),
        };
        let pseudo_header = sum(&addresses) + u32::from(self.protocol) + segment.len() as u32;
        let value = match checksum(pseudo_header + sum(&segment)) {
            0 if self.protocol == UDP => 0xffff,
            value => value,
        };
        if self.has_checksum || self.protocol == TCP {
            segment[place..place + 2].copy_from_slice(&value.to_be_bytes());
        }
        segment
    }

    fn encode(&self) -> Vec<u8> {
        let segment = self.encode_transport();
        let mut frame = vec![0; 12];
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let fragment = if self.is_fragment { 0x20 } else { 0 };
                let mut header = vec![0x45, self.tos];
                header.extend(((20 + segment.len()) as u16).to_be_bytes());
                header.extend([0x77, 0x88, fragment, 0, self.hops, self.protocol, 0, 0]);
                header.extend([source.octets(), destination.octets()].concat());
                let value = checksum(sum(&header));
                header[10..12].copy_from_slice(&value.to_be_bytes());
                frame.extend([8, 0]);
                frame.extend(header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((segment.len() as u16).to_be_bytes());
                frame.extend([self.protocol, self.hops]);
                frame.extend([source.octets(), destination.octets()].concat());
            }
            _ => unreachable!("of one IP version"),
        }
        frame.extend(segment);
        frame
    }

    fn bytes(&self) -> usize {
        self.encode().len() - 14
    }
}

prop_compose! {
    fn packets()(
        is_v6 in any::<bool>(),
        is_tcp in any::<bool>(),
        hosts in any::<[u8; 2]>(),
        is_known in prop::bool::weighted(0.9),
        hops in prop_oneof![1 => 0u8..3, 3 => any::<u8>()],
        tos in any::<u8>(),
        has_checksum in prop::bool::weighted(0.8),
        is_fragment in prop::bool::weighted(0.1),
        payload in prop_oneof![
            4 => prop::collection::vec(any::<u8>(), 0..60),
            1 => prop::collection::vec(any::<u8>(), 900..1020),
        ],
    ) -> Packet {
        let [own, far] = hosts;
        let net = if is_known { 2 } else { 3 };
        let (source, destination): (IpAddr, IpAddr) = match is_v6 {
            false => ([10, 1, 0, own].into(), [10, net, 0, far].into()),
            true => (
                Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, own.into()).into(),
                Ipv6Addr::new(0xfd00 + u16::from(net), 0, 0, 0, 0, 0, 0, far.into()).into(),
            ),
        };
        let protocol = if is_tcp { TCP } else { UDP };
        Packet { source, destination, protocol, hops, tos, has_checksum, is_fragment: is_fragment && !is_v6, payload }
    }
}

/// As the first path translates.
fn translated(packet: &Packet) -> Packet {
    let [source, destination] = [packet.source, packet.destination].map(|address| match address {
        IpAddr::V4(address) => {
            let [_, site, _, host] = address.octets();
            IpAddr::from([198, 51, site, host])
        }
        IpAddr::V6(address) => {
            let segments = address.segments();
            Ipv6Addr::new(0xfd51, segments[0] & 0xff, 0, 0, 0, 0, 0, segments[7]).into()
        }
    });
    Packet { source, destination, hops: packet.hops - 1, ..packet.clone() }
}

fn rules() -> FastPathRules {
    let network = |text: &str| text.parse::<IpNet>().unwrap();
    let networks = vec![
        (network("10.1.0.0/24"), NetworkUse::LocalHosts { interface: LOOPBACK }),
        (network("fd01::/64"), NetworkUse::LocalHosts { interface: LOOPBACK }),
        (network("10.2.0.0/24"), NetworkUse::RemoteHosts { remote: 0 }),
        (network("fd02::/64"), NetworkUse::RemoteHosts { remote: 0 }),
        (network("10.1.0.0/24"), NetworkUse::PathSources(0, network("198.51.1.0/24"))),
        (network("fd01::/64"), NetworkUse::PathSources(0, network("fd51:1::/64"))),
        (network("10.2.0.0/24"), NetworkUse::PathDestinations(0, network("198.51.2.0/24"))),
        (network("fd02::/64"), NetworkUse::PathDestinations(0, network("fd51:2::/64"))),
    ];
    // The first of three packets goes by a path that translates, two by one that does not.
    let turn = vec![0, 1, 1];
    let remote = FastRemote { turn, has_single_flows: false, needs_ports: true, mtu: MTU as u32 };
    let path = FastPathExit { interface: LOOPBACK, mark: 5, gateway_v4: None, gateway_v6: None };
    FastPathRules { networks, remotes: vec![remote], paths: vec![path; 2], ..FastPathRules::default() }
}

#[test]
fn packets_are_what_a_model_that_computes_all_checksums_anew_makes_of_them() {
    // Its loopback interface has the first number.
    let loaded = FastPath::load(10);
    let Ok(mut fast) = loaded else { return println!("passed over: {}", loaded.err().unwrap()) };
    let namespace = Namespace::new().unwrap();
    let work = || {
        fast.change(rules()).unwrap();
        let sent = RefCell::new([CounterValue::default(); 2]);
        let mut runner = TestRunner::new(Config { cases: 2000, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&packets(), |packet| {
            let (verdict, after) = fast.programs[1].run(&packet.encode()).unwrap();
            let is_known = !packet.destination.to_string().starts_with("10.3.")
                && !packet.destination.to_string().starts_with("fd03");
            if !is_known || packet.is_fragment || packet.hops < 2 || packet.bytes() > MTU {
                prop_assert_eq!((verdict, after), (PASS, packet.encode()));
                return Ok(());
            }
            let mut sent = sent.borrow_mut();
            let path = usize::from(!(sent[0].packets + sent[1].packets).is_multiple_of(3));
            let expected = match path {
                0 => translated(&packet),
                _ => Packet { hops: packet.hops - 1, ..packet.clone() },
            };
            prop_assert_eq!((verdict, after), (REDIRECT, expected.encode()));
            sent[path] = sent[path] + CounterValue { packets: 1, bytes: packet.bytes() as u64 };
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{error}"));
        let counts = [0, 1].map(|path| fast.path_count(path).unwrap());
        assert_eq!(counts, *sent.borrow());
        assert!(counts.iter().all(|count| count.packets > 100), "{counts:?}");
    };
    namespace.run(work).unwrap();
}

/// As those of NAT sessions: divided where they leave, with addresses of their own on one path, and restored where they arrive.
#[test]
fn single_flows_are_divided_translated_and_restored_and_others_are_left_alone() {
    let loaded = FastPath::load(10);
    let Ok(mut fast) = loaded else { return println!("passed over: {}", loaded.err().unwrap()) };
    let namespace = Namespace::new().unwrap();
    let work = || {
        for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
        }
        for network in ["10.2.0.0/24", "fd02::/64"] {
            crate::interface::add_route("lo", network.parse().unwrap()).unwrap();
        }
        let mut single = FastPathRules { restores_flows: true, ..rules() };
        single
            .networks
            .retain(|(_, purpose)| !matches!(purpose, NetworkUse::PathSources(..) | NetworkUse::PathDestinations(..)));
        single.remotes[0].has_single_flows = true;
        fast.change(single).unwrap();
        let flows = fast.flows();
        for (source, destination, alias) in [("10.1.0.7", "10.2.0.9", "198.51.1.1"), ("fd01::7", "fd02::9", "fd51::1")]
        {
            let [source, destination, alias] = [source, destination, alias].map(|text| text.parse::<IpAddr>().unwrap());
            let payload = b"some payload".to_vec();
            let (protocol, hops, tos) = (UDP, 64, 0);
            let own =
                Packet { source, destination, protocol, hops, tos, has_checksum: true, is_fragment: false, payload };
            let outside = Packet { source: alias, ..own.clone() };
            let run = |role: FastPathRole, packet: &Packet| fast.programs[role as usize].run(&packet.encode()).unwrap();
            let (divides, restores) = (FastPathRole::Divides, FastPathRole::Restores);
            // Ports are those of all packets here.
            let ends = |source| (SocketAddr::new(source, 0x1234), SocketAddr::new(destination, 0x5678));
            let flow = |(source, destination)| FlowKey { protocol: UDP, source, destination };
            let (flow, arriving) = (flow(ends(source)), flow(ends(alias)));
            let all = [
                (flow, FlowUse::Translated { path: 0, addresses: Addresses { source: alias, destination } }),
                (flow, FlowUse::Divided { remote: 0 }),
                (arriving, FlowUse::Restored(flow.addresses())),
            ];
            assert_eq!(run(divides, &own), (PASS, own.encode()));
            assert_eq!(run(restores, &outside), (PASS, outside.encode()));
            all.iter().for_each(|(flow, purpose)| flows.add(flow, *purpose).unwrap());
            assert!(flows.add(&flow, FlowUse::Divided { remote: 0 }).is_err());
            let less = |packet: &Packet| (REDIRECT, Packet { hops: 63, ..packet.clone() }.encode());
            // The turn is of three packets, of which the first takes the first path.
            assert_eq!([(); 3].map(|()| run(divides, &own)), [less(&outside), less(&own), less(&own)]);
            // The second time by a route that is known.
            assert_eq!([(); 2].map(|()| run(restores, &outside)), [less(&own), less(&own)]);
            let bytes = own.bytes() as u64;
            let count = |packets| CounterValue { packets, bytes: packets * bytes };
            assert_eq!(flows.divided_flows(0).unwrap().get(&flow), Some(&count(3)));
            assert_eq!(flows.restored_flows().unwrap().get(&arriving), Some(&count(2)));
            assert!(flows.divided_flows(1).unwrap().is_empty());
            all.iter().for_each(|(flow, purpose)| flows.remove(flow, *purpose));
            assert_eq!(run(divides, &own), (PASS, own.encode()));
            assert_eq!(run(restores, &outside), (PASS, outside.encode()));
        }
    };
    namespace.run(work).unwrap();
}

/// What is in the repository is what clang 14, of Debian 12, makes of the source: others make other instructions of it.
#[test]
fn the_instructions_are_those_of_their_source() {
    let version = std::process::Command::new("clang").arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if !version.contains("version 14.") {
        return println!("passed over: there is no clang 14 here");
    }
    let made = std::env::temp_dir().join(format!("kumade-fast-path-{}", std::process::id()));
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/fast_path/build");
    let status = std::process::Command::new(build).arg(&made).status().unwrap();
    let octets = std::fs::read(&made).unwrap_or_default();
    let _ = std::fs::remove_file(&made);
    assert!(status.success() && octets == INSTRUCTIONS, "run crates/net/bpf/fast_path/build, and commit what it makes");
}
