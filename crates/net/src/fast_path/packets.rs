//! The program in the kernel against a model that computes all checksums anew, on packets drawn at random.

use super::*;
use crate::host_routing::unforwarded_networks;
use crate::interface;
use crate::namespace::Namespace;
use kumade_netns_testbed::eventually;
use kumade_packet::{Addresses, FlowKey};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::RefCell;
use std::net::SocketAddr;

/// TCX_NEXT and TC_ACT_REDIRECT of linux/bpf.h and linux/pkt_cls.h.
const PASS: i32 = -1;
const REDIRECT: i32 = 7;
const TCP: u8 = 6;
const UDP: u8 = 17;
const LOOPBACK: u32 = 1;
const MTU: usize = 1000;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

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
    /// Octets behind it, as Ethernet has them behind short packets.
    padding: usize,
    damage: Option<Damage>,
}

/// What the kernel drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// The last octet is missing.
    Truncated,
    /// The checksum of the IPv4 header, or the version of the IPv6 header, is wrong.
    Header,
    /// The header says that there is no room for those of TCP and UDP.
    Length,
}

impl Default for Packet {
    fn default() -> Self {
        let unspecified = Ipv4Addr::UNSPECIFIED.into();
        Packet {
            source: unspecified,
            destination: unspecified,
            protocol: UDP,
            hops: 64,
            tos: 0,
            has_checksum: true,
            is_fragment: false,
            payload: b"some payload".to_vec(),
            padding: 0,
            damage: None,
        }
    }
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
        let length = if self.damage == Some(Damage::Length) { 7 } else { segment.len() };
        let has_wrong_header = self.damage == Some(Damage::Header);
        let mut frame = vec![0; 12];
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let fragment = if self.is_fragment { 0x20 } else { 0 };
                let mut header = vec![0x45, self.tos];
                header.extend(((20 + length) as u16).to_be_bytes());
                header.extend([0x77, 0x88, fragment, 0, self.hops, self.protocol, 0, 0]);
                header.extend([source.octets(), destination.octets()].concat());
                let value = checksum(sum(&header));
                header[10..12].copy_from_slice(&(value ^ u16::from(has_wrong_header)).to_be_bytes());
                frame.extend([8, 0]);
                frame.extend(header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([0x86, 0xdd, if has_wrong_header { 0x50 } else { 0x60 }, 0, 0, 0]);
                frame.extend((length as u16).to_be_bytes());
                frame.extend([self.protocol, self.hops]);
                frame.extend([source.octets(), destination.octets()].concat());
            }
            _ => unreachable!("of one IP version"),
        }
        frame.extend(segment);
        if self.damage == Some(Damage::Truncated) {
            frame.pop();
        }
        frame.resize(frame.len() + self.padding, 0xaa);
        frame
    }

    /// From the IP header on.
    fn bytes(&self) -> usize {
        self.encode().len() - 14 - self.padding
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
        padding in prop_oneof![3 => Just(0), 1 => 1_usize..20],
        damage in prop_oneof![
            9 => Just(None),
            1 => prop::sample::select(vec![Damage::Truncated, Damage::Header, Damage::Length]).prop_map(Some),
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
        let (is_fragment, padding) = (is_fragment && !is_v6, if damage.is_none() { padding } else { 0 });
        Packet { source, destination, protocol, hops, tos, has_checksum, is_fragment, payload, padding, damage }
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
    Packet { source, destination, hops: packet.hops - 1, padding: 0, ..packet.clone() }
}

fn rules() -> FastPathRules {
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

fn network(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// This namespace forwards what is for these networks to its loopback interface.
fn forward_to(networks: &[&str]) {
    for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
    }
    interface::set_up("lo").unwrap();
    networks.iter().for_each(|text| interface::add_route("lo", network(text)).unwrap());
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
            let is_sound = packet.damage.is_none() && !packet.is_fragment;
            if !is_known || !is_sound || packet.hops < 2 || packet.bytes() > MTU {
                prop_assert_eq!((verdict, after), (PASS, packet.encode()));
                return Ok(());
            }
            let mut sent = sent.borrow_mut();
            let path = usize::from(!(sent[0].packets + sent[1].packets).is_multiple_of(3));
            let expected = match path {
                0 => translated(&packet),
                _ => Packet { hops: packet.hops - 1, padding: 0, ..packet.clone() },
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
        forward_to(&["10.2.0.0/24", "fd02::/64"]);
        let mut single = FastPathRules { restores_flows: true, ..rules() };
        single
            .networks
            .retain(|(_, purpose)| !matches!(purpose, NetworkUse::PathSources(..) | NetworkUse::PathDestinations(..)));
        // What is given back here was sent from there.
        for (own, far) in [("10.2.0.0/24", "10.1.0.0/24"), ("fd02::/64", "fd01::/64")] {
            let arriving = NetworkUse::KnownDestinations { interface: LOOPBACK };
            single.networks.extend([(network(own), arriving), (network(far), NetworkUse::RemoteHosts { remote: 1 })]);
        }
        single.remotes[0].has_single_flows = true;
        fast.change(single).unwrap();
        let flows = fast.flows();
        for (source, destination, alias) in [("10.1.0.7", "10.2.0.9", "198.51.1.1"), ("fd01::7", "fd02::9", "fd51::1")]
        {
            let [source, destination, alias] = [source, destination, alias].map(|text| text.parse::<IpAddr>().unwrap());
            let own = Packet { source, destination, ..Packet::default() };
            let outside = Packet { source: alias, ..own.clone() };
            let run = |role: FastPathRole, packet: &Packet| fast.programs[role as usize].run(&packet.encode()).unwrap();
            let (divides, restores) = (FastPathRole::Divides, FastPathRole::Restores);
            // Ports are those of all packets here.
            let ends = |source| (SocketAddr::new(source, 0x1234), SocketAddr::new(destination, 0x5678));
            let flow = |(source, destination)| FlowKey { protocol: UDP, source, destination };
            let (flow, arriving) = (flow(ends(source)), flow(ends(alias)));
            let all = [
                (flow, FlowUse::Translated { path: 0, addresses: Addresses { source: alias, destination } }),
                (flow, FlowUse::Divided { translating_paths: 1 }),
                (arriving, FlowUse::Restored(flow.addresses())),
            ];
            assert_eq!(run(divides, &own), (PASS, own.encode()));
            assert_eq!(run(restores, &outside), (PASS, outside.encode()));
            all.iter().for_each(|(flow, purpose)| flows.add(flow, *purpose).unwrap());
            assert!(flows.add(&flow, FlowUse::Divided { translating_paths: 1 }).is_err());
            let less = |packet: &Packet| (REDIRECT, Packet { hops: 63, ..packet.clone() }.encode());
            // The turn is of three packets, of which the first takes the first path.
            assert_eq!([(); 3].map(|()| run(divides, &own)), [less(&outside), less(&own), less(&own)]);
            // The second time by a route that is known.
            assert_eq!([(); 2].map(|()| run(restores, &outside)), [less(&own), less(&own)]);
            let bytes = own.bytes() as u64;
            let count = |packets| CounterValue { packets, bytes: packets * bytes };
            assert_eq!(flows.divided_flows().unwrap().get(&flow), Some(&count(3)));
            assert_eq!(flows.restored_flows().unwrap().get(&arriving), Some(&count(2)));
            // It takes no path on which it would have other addresses that are not there: the first one.
            flows.remove(&flow, all[0].1);
            assert_eq!([(); 3].map(|()| run(divides, &own)), [(PASS, own.encode()), less(&own), less(&own)]);
            // What has other addresses than packets of this host's remote sites is left to the kernel.
            flows.remove(&arriving, all[2].1);
            flows.add(&arriving, FlowUse::Restored(Addresses { source: LOCALHOST, ..flow.addresses() })).unwrap();
            assert_eq!(run(restores, &outside), (PASS, outside.encode()));
            all.iter().for_each(|(flow, purpose)| flows.remove(flow, *purpose));
            assert_eq!(run(divides, &own), (PASS, own.encode()));
            assert_eq!(run(restores, &outside), (PASS, outside.encode()));
        }
    };
    namespace.run(work).unwrap();
}

/// Remote sites with all addresses but those of this side.
fn rules_for_all_addresses() -> FastPathRules {
    let networks = ["0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"];
    let remote = networks.map(|text| (network(text), NetworkUse::RemoteHosts { remote: 0 }));
    let own = ["10.1.0.0/24", "fd01::/64"].map(network);
    let local = own.map(|own| (own, NetworkUse::LocalHosts { interface: LOOPBACK }));
    let known = own.map(|own| (own, NetworkUse::KnownDestinations { interface: LOOPBACK }));
    let remotes = vec![FastRemote { turn: vec![0], mtu: MTU as u32, ..FastRemote::default() }];
    FastPathRules {
        networks: [&remote[..], &local, &known].concat(),
        excluded: unforwarded_networks().unwrap(),
        remotes,
        paths: vec![FastPathExit { interface: LOOPBACK, ..FastPathExit::default() }],
        interfaces: vec![(LOOPBACK, FastPathRole::Restores), (LOOPBACK, FastPathRole::Divides)],
        ..FastPathRules::default()
    }
}

/// No sources that packets from elsewhere have, and no destinations of those that are forwarded: special addresses, and this host's own.
const KEPT: [&str; 13] = [
    "0.1.2.3",
    "127.0.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "10.9.1.1",
    "10.9.1.255",
    "::",
    "::1",
    "ff02::1",
    "fe80::1",
    "::ffff:192.0.2.1",
    "fd09::1",
    "fd08::7",
];

#[test]
fn programs_are_detached_though_a_child_that_is_being_started_has_them_open() {
    let loaded = FastPath::load(10);
    let Ok(mut fast) = loaded else { return println!("passed over: {}", loaded.err().unwrap()) };
    let work = move || {
        forward_to(&["10.1.0.0/24"]);
        fast.change(rules_for_all_addresses()).unwrap();
        let open: Vec<_> = fast.links.values().map(|link| link.duplicate()).collect();
        assert!(!open.is_empty());
        fast.links.clear();
        fast.change(rules_for_all_addresses()).unwrap();
    };
    Namespace::new().unwrap().run(work).unwrap();
}

#[test]
fn what_the_kernel_would_not_forward_is_left_to_it_whatever_is_translated() {
    let loaded = FastPath::load(10);
    let Ok(mut fast) = loaded else { return println!("passed over: {}", loaded.err().unwrap()) };
    let work = || {
        forward_to(&["10.1.0.0/24", "10.5.0.0/24", "fd01::/64", "fd05::/64"]);
        for address in ["10.9.1.1/24", "fd09::1/64", "fd08::7/64"] {
            interface::add_address("lo", network(address)).unwrap();
        }
        // These come into use a moment later.
        let own = ["fd09::1/128", "fd08::7/128"].map(network);
        assert!(eventually(|| own.iter().all(|own| unforwarded_networks().unwrap().contains(own))));
        let aliases = [("198.51.100.0/24", "10.1.0.0/24"), ("fd51::/64", "fd01::/64")];
        let aliases = aliases.map(|(alias, own)| (network(alias), network(own)));
        let destinations = aliases.map(|(alias, own)| (alias, NetworkUse::ArrivingDestinations(LOOPBACK, own)));
        // Of remote hosts, and of this host's own network.
        let far = [("198.51.200.0/24", "192.0.2.0/24"), ("198.51.201.0/24", "10.9.1.0/24"), ("fd52::/64", "fd09::/64")];
        let sources = far.map(|(alias, far)| (network(alias), NetworkUse::ArrivingSources(LOOPBACK, network(far))));
        let run = |fast: &FastPath, role: FastPathRole, source: &str, destination: &str| {
            let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
            let packet = Packet { source, destination, ..Packet::default() };
            let (verdict, after) = fast.programs[role as usize].run(&packet.encode()).unwrap();
            assert!(verdict == REDIRECT || (verdict, after) == (PASS, packet.encode()));
            verdict
        };
        let (restores, divides) = (FastPathRole::Restores, FastPathRole::Divides);
        for translations in [&[][..], &destinations, &sources] {
            let mut rules = rules_for_all_addresses();
            rules.networks.extend(translations);
            fast.change(rules).unwrap();
            let is_translating = translations.contains(&destinations[0]);
            let [own, own_v6] = if is_translating { ["198.51.100.7", "fd51::7"] } else { ["10.1.0.7", "fd01::7"] };
            for (source, destination) in [("192.0.2.9", own), ("2001:db8::9", own_v6)] {
                assert_eq!(run(&fast, restores, source, destination), REDIRECT, "{source}");
            }
            for kept in KEPT {
                let (is_v6, local) = (kept.contains(':'), if kept.contains(':') { own_v6 } else { own });
                assert_eq!(run(&fast, restores, kept, local), PASS, "from {kept}");
                let local = if is_v6 { "fd01::7" } else { "10.1.0.7" };
                assert_eq!(run(&fast, divides, local, kept), PASS, "to {kept}");
            }
            // Others than the local hosts that are listed.
            for (source, destination) in [("192.0.2.9", "10.5.0.1"), ("2001:db8::9", "fd05::1")] {
                assert_eq!(run(&fast, restores, source, destination), PASS);
            }
            assert_eq!(run(&fast, divides, "10.1.0.7", "192.0.2.9"), REDIRECT);
            assert_eq!(run(&fast, divides, "fd01::7", "2001:db8::9"), REDIRECT);
        }
        for (source, destination, verdict) in [
            ("198.51.200.9", "10.1.0.7", REDIRECT),
            ("198.51.201.1", "10.1.0.7", PASS),
            ("fd52::1", "fd01::7", PASS),
            ("198.51.200.9", "10.5.0.1", PASS),
        ] {
            assert_eq!(run(&fast, restores, source, destination), verdict, "{source} {destination}");
        }
        // Networks of one IP version are none of the other.
        let mut rules = rules_for_all_addresses();
        rules.networks.retain(|(network, purpose)| {
            !(matches!(network, IpNet::V4(_)) && matches!(purpose, NetworkUse::RemoteHosts { .. }))
        });
        fast.change(rules).unwrap();
        assert_eq!(run(&fast, divides, "10.1.0.7", "192.0.2.9"), PASS);
        assert_eq!(run(&fast, divides, "fd01::7", "2001:db8::9"), REDIRECT);
    };
    Namespace::new().unwrap().run(work).unwrap();
}

/// Where clang is another one than that of Debian 12, it makes other instructions of the same source. Whoever changes the source has to
/// run it in any case.
#[test]
fn the_instructions_are_those_of_their_source() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/fast_path");
    let mut check = std::process::Command::new("sha256sum");
    let status = check.args(["--check", "--quiet", "fast_path.sha256"]).current_dir(directory).status().unwrap();
    assert!(status.success(), "run crates/net/bpf/fast_path/build, and commit what it makes");
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

#[test]
fn classes_of_batches_are_those_of_packet_rules() {
    let source = include_str!("../../bpf/fast_path/fast_path.bpf.c");
    let (_, function) = source.split_once("__u32 batch_class(__u32 bytes)").unwrap();
    let numbers = function.split(';').next().unwrap().split("bytes < ").skip(1);
    let from: Vec<u32> = numbers.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(from, BATCH_CLASSES_FROM_BYTES);
    assert!(source.contains(&format!("#define BATCH_CLASSES {}", from.len() + 1)));
}
