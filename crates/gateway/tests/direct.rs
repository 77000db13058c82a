//! The direct plane between real hosts: who gets which packet, and with which addresses.

use crate::counter;
use crate::sites;

use counter::Counter;
use ipnet::IpNet;
use kumade_daemon::RuntimeDir;
use kumade_gateway::GatewayConfig;
use kumade_gateway::direct::{DirectError, DirectPlane};
use kumade_multipath::nat_session::DividedRule;
use kumade_net::gro::GroLimits;
use kumade_net::namespace::Namespace;
use kumade_net::nftables::{Chain, Hook, InstalledTable, Rule, Statement, Table};
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces, run_ip};
use kumade_packet::{Addresses, FlowKey};
use sites::{Sites, is_up};
use std::env;
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;

fn network(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A directory for this test alone.
pub(crate) fn runtime(name: &str) -> RuntimeDir {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("gateway-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    RuntimeDir::from_path(directory)
}

pub(crate) fn read(text: &str) -> GatewayConfig {
    let interfaces = ["lan", "path1", "path2"].map(String::from);
    GatewayConfig::from_toml(text, "test.toml", &interfaces).unwrap()
}

pub(crate) fn start(inside: &Namespace, config: &GatewayConfig, directory: &RuntimeDir) -> DirectPlane {
    inside.run(|| DirectPlane::start(config, directory.clone())).unwrap().unwrap()
}

/// What `ip` says of rules and routes, but for those to this host's own addresses, which the kernel adds in its own time.
fn routing(inside: &Namespace) -> String {
    let show = |arguments: &[&str]| run_ip(inside, arguments).unwrap();
    let routes = |family| show(&[family, "rule"]) + &show(&[family, "route", "show", "table", "all"]);
    let listed = ["-4", "-6"].map(routes).concat();
    listed.split_inclusive('\n').filter(|line| !line.contains(" table local ")).collect()
}

/// Runs a test twice: as the kernel lets gateways forward, by the fast path, and where other rules of the hosts keep them from that.
pub(crate) fn by_fast_path_and_by_rules(name: &str, test: impl Fn(&Sites)) {
    in_namespaces(name, || {
        test(&Sites::new());
        let sites = Sites::new();
        let _rules = [&sites.left, &sites.right].map(install_host_rules);
        test(&sites);
    });
}

/// A rule that does nothing to any packet, until it is dropped.
pub(crate) fn install_host_rules(inside: &Namespace) -> InstalledTable {
    let rules = vec![Rule(vec![Statement::InputInterface("nothing".into()), Statement::Drop])];
    let chains = vec![Chain { name: "all".into(), hook: Some(Hook::Postrouting(0)), rules }];
    let table = Table { name: "host".into(), counters: vec![], flow_lists: vec![], chains };
    inside.run(|| InstalledTable::install(&table)).unwrap().unwrap()
}

pub(crate) const LEFT: &str = r#"
[gateway]
name = "left"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24", "fd01::/64"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2", "fd09:1::2"]
weight = 16

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2", "fd09:2::2"]
weight = 3

[[remote]]
name = "right"
networks = ["10.2.0.0/24", "fd02::/64"]
"#;

/// Sender with provider-independent addresses, receiver with one provider: (A)(a).
#[test]
fn packets_are_divided_exactly_in_the_ratio_of_the_weights() {
    by_fast_path_and_by_rules("packets_are_divided_exactly_in_the_ratio_of_the_weights", |sites| {
        let on =
            |path: &str, to: &str| vec![Statement::InputInterface(path.into()), Statement::Destination(network(to))];
        let [v4, v6] = ["10.2.0.2/32", "fd02::2/128"];
        let conditions = [on("path1", v4), on("path2", v4), on("path1", v6), on("path2", v6)];
        let (before, directory) = (routing(&sites.left), runtime("ratio"));
        let plane = start(&sites.left, &read(LEFT), &directory);
        let counter = Counter::new(&sites.right, &conditions);
        sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 57);
        sites.send(&sites.a, "fd01::2", &sites.b, "fd02::2", 38);
        assert_eq!(counter.packets(), [48, 9, 32, 6]);
        let sent: Vec<_> =
            plane.path_counts().unwrap().into_iter().map(|count| (count.path, count.sent.packets)).collect();
        assert_eq!(sent, [("one".to_owned(), 80), ("two".to_owned(), 15)]);
        assert!(routing(&sites.left).contains("fwmark 0x6b01"));
        sites.left.run(|| drop(plane)).unwrap();
        assert_eq!(routing(&sites.left), before);
        sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 5);
        assert_eq!(counter.packets(), [53, 9, 32, 6]);
    });
}

/// Batches that a sender's own stack has not split alternate with short packets: one path got the batches, the other one the rest.
#[test]
fn large_batches_and_short_packets_that_alternate_are_divided_each_in_the_ratio() {
    const SEGMENT_BYTES: u16 = 1000;
    const SEGMENTS: usize = 40;
    const ROUNDS: u64 = 20;
    by_fast_path_and_by_rules(
        "large_batches_and_short_packets_that_alternate_are_divided_each_in_the_ratio",
        |sites| {
            let config = read(&LEFT.replace("weight = 16", "weight = 1").replace("weight = 3", "weight = 1"));
            let plane = start(&sites.left, &config, &runtime("batches"));
            let _far = sites.b.run(|| UdpSocket::bind("10.2.0.2:9").unwrap()).unwrap();
            let near = sites.a.run(|| UdpSocket::bind("10.1.0.2:0").unwrap()).unwrap();
            near.connect("10.2.0.2:9").unwrap();
            let mut is_segmenting = true;
            for _ in 0..ROUNDS {
                let batch = vec![7; usize::from(SEGMENT_BYTES) * SEGMENTS];
                kumade_net::udp::send_burst(&near, &batch, SEGMENT_BYTES, &mut is_segmenting).unwrap();
                near.send(b"short").unwrap();
            }
            let sent = || plane.path_counts().unwrap().into_iter().map(|count| count.sent).collect::<Vec<_>>();
            let all = ROUNDS * u64::from(SEGMENT_BYTES) * SEGMENTS as u64;
            assert!(eventually(|| sent().iter().map(|count| count.bytes).sum::<u64>() > all), "{:?}", sent());
            let counts = sent();
            let [one, two] = [&counts[0], &counts[1]].map(|count| count.bytes);
            // Hosts that hand over no batches send 41 packets a round, which are divided alike.
            assert!(one.abs_diff(two) * 20 <= one + two, "{counts:?}");
        },
    );
}

#[test]
fn each_remote_site_has_its_own_ratio_and_all_other_addresses_theirs() {
    by_fast_path_and_by_rules("each_remote_site_has_its_own_ratio_and_all_other_addresses_theirs", |sites| {
        let config = LEFT.replace("\"10.2.0.0/24\", ", "")
            + "[[remote]]\nname = \"one-host\"\nnetworks = [\"10.2.0.7\"]\npaths = [\"two\"]\n\
               [[remote]]\nname = \"rest\"\nnetworks = [\"0.0.0.0/0\"]\npaths = [\"two\", \"one\"]\n";
        let plane = start(&sites.left, &read(&config), &runtime("remotes"));
        let on =
            |path: &str, to: &str| vec![Statement::InputInterface(path.into()), Statement::Destination(network(to))];
        let [v4, v6] = ["10.2.0.2/32", "fd02::2/128"];
        let conditions = [on("path1", v4), on("path2", v4), on("path1", v6), on("path2", v6)];
        let counter = Counter::new(&sites.right, &conditions);
        sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 19 + 3);
        sites.send(&sites.a, "fd01::2", &sites.b, "fd02::2", 19 + 16);
        // The second begins with the three of path `two`; to the gateway itself, nothing is divided.
        assert_eq!(counter.packets(), [16, 6, 32, 3]);
        let own = sites.left.run(|| UdpSocket::bind("10.1.0.1:7").unwrap()).unwrap();
        own.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        let near = sites.a.run(|| UdpSocket::bind("10.1.0.2:0").unwrap()).unwrap();
        near.send_to(b"hello", "10.1.0.1:7").unwrap();
        own.recv(&mut [0; 9]).unwrap();
        let sent: u64 = plane.path_counts().unwrap().iter().map(|count| count.sent.packets).sum();
        assert_eq!(sent, 22 + 35);
        sites.left.run(|| drop(plane)).unwrap();
    });
}

/// Sender with addresses of each provider, receiver with several: (B)(b). The combinations between are parts of it.
#[test]
fn hosts_see_the_original_addresses_where_each_path_has_others() {
    by_fast_path_and_by_rules("hosts_see_the_original_addresses_where_each_path_has_others", |sites| {
        let directories = [runtime("left"), runtime("right")];
        let aliases = |side: u8, hosts: &str| {
            let alias = |path: u8| {
                let (network, path) = (format!("10.{side}.0.{hosts}"), if path == 1 { "one" } else { "two" });
                let number = if path == "one" { 1 } else { 2 };
                format!(
                    "[[translation]]\nnetwork = \"{network}\"\nalias = \"198.51.{side}{number}.{hosts}\"\npath = \"{path}\"\n\
                     [[translation]]\nnetwork = \"fd0{side}::/64\"\nalias = \"fd51:{side}{number}::/64\"\npath = \"{path}\"\n"
                )
            };
            alias(1) + &alias(2)
        };
        let translations = aliases(1, "0/24") + &aliases(2, "0/24");
        let left = LEFT.to_owned() + &translations;
        let right = LEFT.replace("10.1.0.0/24", "X").replace("10.2.0.0/24", "10.1.0.0/24").replace('X', "10.2.0.0/24");
        let right = right.replace("fd01::/64", "X").replace("fd02::/64", "fd01::/64").replace('X', "fd02::/64");
        let right = right.replace("10.9.1.2", "10.9.1.1").replace("10.9.2.2", "10.9.2.1");
        let right = right.replace("fd09:1::2", "fd09:1::1").replace("fd09:2::2", "fd09:2::1") + &translations;
        let planes =
            [start(&sites.left, &read(&left), &directories[0]), start(&sites.right, &read(&right), &directories[1])];
        let on = |path: &str, from: &str, to: &str| {
            let (from, to) = (Statement::Source(network(from)), Statement::Destination(network(to)));
            vec![Statement::InputInterface(path.into()), from, to]
        };
        let conditions = [
            on("path1", "198.51.11.2/32", "198.51.21.2/32"),
            on("path2", "198.51.12.2/32", "198.51.22.2/32"),
            on("path1", "fd51:11::2/128", "fd51:21::2/128"),
            on("path2", "fd51:12::2/128", "fd51:22::2/128"),
        ];
        let counter = Counter::new(&sites.right, &conditions);
        sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", 38);
        sites.send(&sites.a, "fd01::2", &sites.b, "fd02::2", 19);
        assert_eq!(counter.packets(), [32, 6, 16, 3]);
        assert_eq!(
            planes[1].path_counts().unwrap().iter().map(|count| count.sent.packets).collect::<Vec<_>>(),
            [48, 9]
        );
        // A batch of TCP segments is translated as one, and its checksums are finished later.
        sites.transfer(300_000);
        // Answers were divided and translated likewise.
        let sent: Vec<_> = planes[1].path_counts().unwrap().iter().map(|count| count.sent.packets).collect();
        assert!(sent[0] > 48 && sent[1] > 9, "{sent:?}");
        let [one, two] = planes;
        sites.left.run(|| drop(one)).unwrap();
        sites.right.run(|| drop(two)).unwrap();
    });
}

#[test]
fn a_second_gateway_and_a_host_that_does_not_forward_are_refused() {
    in_namespaces("a_second_gateway_and_a_host_that_does_not_forward_are_refused", || {
        let sites = Sites::new();
        let directory = runtime("refused");
        let before = routing(&sites.left);
        let attempt =
            |config: &GatewayConfig| sites.left.run(|| DirectPlane::start(config, directory.clone())).unwrap();
        let config = read(LEFT);
        let plane = attempt(&config).unwrap();
        // Wherever its files are.
        let second = sites.left.run(|| DirectPlane::start(&config, runtime("refused-too"))).unwrap();
        assert!(matches!(second, Err(DirectError::NamespaceTaken { .. })));
        sites.left.run(|| drop(plane)).unwrap();
        let unreachable = read(&LEFT.replace("10.9.2.2", "192.0.2.1"));
        let error = attempt(&unreachable).unwrap_err().to_string();
        assert!(error.contains("path2") && error.contains("must be in a network of the interface"), "{error}");
        assert_eq!(routing(&sites.left), before);
        sites.left.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "0").unwrap()).unwrap();
        let error = attempt(&config).unwrap_err().to_string();
        assert!(error.contains("sysctl -w net.ipv4.ip_forward=1"), "{error}");
        assert_eq!(routing(&sites.left), before);
    });
}

#[test]
fn a_path_that_is_down_gets_no_packets_until_it_is_up_again_and_weights_change_at_once() {
    by_fast_path_and_by_rules(
        "a_path_that_is_down_gets_no_packets_until_it_is_up_again_and_weights_change_at_once",
        |sites| {
            let on = |path: &str| {
                vec![Statement::InputInterface(path.into()), Statement::Destination(network("10.2.0.2/32"))]
            };
            let mut plane = start(&sites.left, &read(LEFT), &runtime("down"));
            let counter = Counter::new(&sites.right, &["path1", "path2"].map(on));
            let mut follow = || sites.left.run(|| plane.update_interfaces()).unwrap().unwrap();
            let send = |packets| sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", packets);
            let set = |state| run_ip(&sites.left, &["link", "set", "path2", state]).map(drop).unwrap();
            set("down");
            follow();
            send(19);
            assert_eq!(counter.packets(), [19, 0]);
            set("up");
            assert!(eventually(|| is_up(&sites.left, "path2") && is_up(&sites.right, "path2")));
            // The kernel forgets a device's IPv6 addresses when it goes down; an administrator's tools set them again.
            follow();
            send(1);
            assert_eq!(counter.packets(), [20, 0]);
            run_ip(&sites.left, &["-6", "addr", "replace", "fd09:2::1/64", "dev", "path2", "nodad"]).unwrap();
            follow();
            send(19);
            assert_eq!(counter.packets(), [20 + 16, 3]);
            sites.left.run(|| plane.set_weights(0, &[2, 4])).unwrap().unwrap();
            send(3);
            assert_eq!(counter.packets(), [20 + 16 + 1, 3 + 2]);
            let refused = sites.left.run(|| plane.set_weights(0, &[0, 0])).unwrap();
            assert!(matches!(refused, Err(DirectError::NoWeight(_))));
            sites.left.run(|| drop(plane)).unwrap();
        },
    );
}

/// The route to the other site in the main table is by the first path, and goes with it.
#[test]
fn packets_arrive_by_the_path_that_is_left_whatever_reverse_path_filtering_paths_have() {
    in_namespaces("packets_arrive_by_the_path_that_is_left_whatever_reverse_path_filtering_paths_have", || {
        for filter in ["1", "2"] {
            let sites = Sites::new();
            let settings = |gateway: &Namespace| {
                let read = |path| fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{path}/rp_filter")).unwrap();
                gateway.run(|| ["path1", "path2"].map(|path| read(path).trim().to_owned())).unwrap()
            };
            let set = |gateway: &Namespace, of: &str, value: &str| {
                gateway.run(|| fs::write(format!("/proc/sys/net/ipv4/conf/{of}/rp_filter"), value)).unwrap().unwrap();
            };
            let gateways = [&sites.left, &sites.right];
            for gateway in gateways {
                set(gateway, "all", "0");
                ["path1", "path2"].iter().for_each(|path| set(gateway, path, filter));
            }
            let right = LEFT.replace("\"left\"", "\"right\"").replace("10.1.0", "10.X.0").replace("10.2.0", "10.1.0");
            let right = right.replace("10.X.0", "10.2.0").replace("fd01::", "fdX::").replace("fd02::", "fd01::");
            let right =
                right.replace("fdX::", "fd02::").replace(".2\", \"fd09", ".1\", \"fd09").replace("::2\"]", "::1\"]");
            let right = read(&right);
            let configs = [read(LEFT), right];
            let directories = ["filter-left", "filter-right"].map(runtime);
            let mut planes = [0, 1].map(|place| start(gateways[place], &configs[place], &directories[place]));
            assert_eq!(gateways.map(settings), [["0", "0"]; 2].map(|both| both.map(String::from)));
            let send = |packets| sites.send(&sites.a, "10.1.0.2", &sites.b, "10.2.0.2", packets);
            send(19);
            run_ip(&sites.left, &["link", "set", "path1", "down"]).unwrap();
            assert!(eventually(|| !is_up(&sites.right, "path1")));
            for (plane, gateway) in planes.iter_mut().zip(gateways) {
                gateway.run(|| plane.update_interfaces()).unwrap().unwrap();
            }
            send(19);
            for (plane, gateway) in planes.into_iter().zip(gateways) {
                gateway.run(|| drop(plane)).unwrap();
            }
            let before = [filter, filter].map(String::from);
            assert_eq!(gateways.map(settings), [before.clone(), before]);
            // With the strict one for all interfaces, a path's may be the loose one.
            set(&sites.right, "all", "1");
            let plane = start(&sites.right, &configs[1], &directories[1]);
            assert_eq!(settings(&sites.right), ["2", "2"].map(String::from));
            sites.right.run(|| drop(plane)).unwrap();
            assert_eq!(settings(&sites.right), [filter, filter].map(String::from));
        }
    });
}

/// What has been merged before it arrives takes one path; what the gateway's own interface merges is bounded.
#[test]
fn batches_are_bounded_by_the_rate_of_the_slowest_path_and_as_before_at_the_end() {
    in_namespaces("batches_are_bounded_by_the_rate_of_the_slowest_path_and_as_before_at_the_end", || {
        let sites = Sites::new();
        let limits = || sites.left.run(|| GroLimits::read("lan")).unwrap().unwrap();
        let before = limits();
        let config = read(&LEFT.replace("weight = 3", "weight = 3\nrate = \"8mbit\""));
        let plane = start(&sites.left, &config, &runtime("batches"));
        assert_eq!(limits(), before.capped_at(2000));
        sites.left.run(|| drop(plane)).unwrap();
        assert_eq!(limits(), before);
    });
}

/// What NAT sessions will do: a flow is set up at both gateways while it passes, and ended again. Others go on as they did.
#[test]
fn single_flows_are_divided_translated_and_counted_while_others_pass_by() {
    by_fast_path_and_by_rules("single_flows_are_divided_translated_and_counted_while_others_pass_by", |sites| {
        let with_sessions = |text: &str| {
            let mut config = read(text);
            config.remotes[0].divides_single_flows = true;
            config
        };
        let right = LEFT.replace("10.1.0.0/24", "X").replace("10.2.0.0/24", "10.1.0.0/24").replace('X', "10.2.0.0/24");
        let right = right.replace("fd01::/64", "X").replace("fd02::/64", "fd01::/64").replace('X', "fd02::/64");
        let right = right.replace("10.9.1.2", "10.9.1.1").replace("10.9.2.2", "10.9.2.1");
        let right = right.replace("fd09:1::2", "fd09:1::1").replace("fd09:2::2", "fd09:2::1");
        let sender = start(&sites.left, &with_sessions(LEFT), &runtime("sender"));
        let receiver = start(&sites.right, &with_sessions(&right), &runtime("receiver"));
        for (source, destination, aliases) in
            [("10.1.0.2", "10.2.0.2", ["198.51.1.2", "198.51.2.2"]), ("fd01::2", "fd02::2", ["fd51:1::2", "fd51:2::2"])]
        {
            let [source, destination] = [source, destination].map(|text| text.parse::<IpAddr>().unwrap());
            let aliases = aliases.map(|text| text.parse::<IpAddr>().unwrap());
            let on =
                |path: &str, from: IpAddr| vec![Statement::InputInterface(path.into()), Statement::Source(from.into())];
            let counter =
                Counter::new(&sites.right, &[on("path1", source), on("path1", aliases[0]), on("path2", aliases[1])]);
            let near = sites.a.run(|| UdpSocket::bind((source, 5000)).unwrap()).unwrap();
            let far = sites.b.run(|| UdpSocket::bind((destination, 6000)).unwrap()).unwrap();
            far.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
            let send = |packets: usize| {
                for number in 0..packets {
                    near.send_to(&number.to_be_bytes(), (destination, 6000)).unwrap();
                    let mut buffer = [0; 9];
                    let (length, from) = far.recv_from(&mut buffer).expect("a packet is lost");
                    assert_eq!((&buffer[..length], from), (&number.to_be_bytes()[..], (source, 5000).into()));
                }
            };
            send(2);
            assert_eq!(counter.packets(), [2, 0, 0]);
            let flow = FlowKey { protocol: 17, source: (source, 5000).into(), destination: (destination, 6000).into() };
            assert!(sender.flow_lists().undivided_flows(0).unwrap().contains(&flow));

            let translated = aliases.map(|source| Addresses { source, destination });
            let divided = DividedRule { flow, aliases: (0..).zip(translated).collect() };
            let restored = divided.restored_rule();
            receiver.flow_lists().restore_addresses(&restored).unwrap();
            sender.flow_lists().divide_flow(0, &divided).unwrap();
            assert!(sender.flow_lists().divide_flow(0, &divided).is_err());
            send(38);
            assert_eq!(counter.packets(), [2, 32, 6]);
            assert_eq!(sender.flow_lists().divided_flows(0).unwrap()[&flow].packets, 38);
            let arrived = receiver.flow_lists().restored_flows().unwrap();
            assert_eq!(restored.arriving_flows().map(|flow| arrived[&flow].packets).collect::<Vec<_>>(), [32, 6]);
            // Another flow between the same hosts.
            sites.send(&sites.a, &source.to_string(), &sites.b, &destination.to_string(), 5);
            assert_eq!(counter.packets(), [2 + 5, 32, 6]);

            sender.flow_lists().stop_dividing(0, &divided).unwrap();
            receiver.flow_lists().stop_restoring_addresses(&restored).unwrap();
            assert!(sender.flow_lists().stop_dividing(0, &divided).is_err());
            assert_eq!(
                (
                    sender.flow_lists().divided_flows(0).unwrap().len(),
                    receiver.flow_lists().restored_flows().unwrap().len()
                ),
                (0, 0)
            );
            send(1);
            assert_eq!(counter.packets(), [2 + 5 + 1, 32, 6]);
        }
        sites.left.run(|| drop(sender)).unwrap();
        sites.right.run(|| drop(receiver)).unwrap();
    });
}

/// As a path's MTU is discovered: the error comes from a router that knows the host by its alias only.
#[test]
fn errors_of_routers_tell_hosts_of_the_packets_that_they_sent() {
    in_namespaces("errors_of_routers_tell_hosts_of_the_packets_that_they_sent", || {
        let sites = Sites::new();
        let translation = |network: &str, alias: &str| {
            format!("[[translation]]\nnetwork = \"{network}\"\nalias = \"{alias}\"\npath = \"one\"\n")
        };
        let here = translation("10.1.0.0/24", "198.51.1.0/24") + &translation("fd01::/64", "fd51:1::/64");
        let there = translation("10.2.0.2", "10.2.0.3") + &translation("fd02::2", "fd02::3");
        let config = LEFT.replace("10.2.0.0/24", "10.2.0.2").replace("fd02::/64", "fd02::2") + "paths = [\"one\"]\n";
        let config = config + &here + &there;
        let plane = start(&sites.left, &read(&config), &runtime("errors"));
        // Without a gateway at the right, its router forwards to the alias of `b`.
        run_ip(&sites.right, &["link", "set", "lan", "mtu", "1300"]).unwrap();
        for (family, back, gateway) in [("-4", "198.51.1.0/24", "10.9.1.1"), ("-6", "fd51:1::/64", "fd09:1::1")] {
            run_ip(&sites.right, &[family, "route", "add", back, "via", gateway]).unwrap();
        }
        for (family, from, to) in [("-4", "10.1.0.2", "10.2.0.2"), ("-6", "fd01::2", "fd02::2")] {
            let address: IpAddr = from.parse().unwrap();
            let near = sites.a.run(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
            let knows = || {
                // Too long for the path, until the host has learnt that.
                let _ = near.send_to(&[0; 1400], (to.parse::<IpAddr>().unwrap(), 9));
                run_ip(&sites.a, &[family, "route", "get", to]).unwrap().contains("mtu 1300")
            };
            assert!(eventually(knows), "{to}");
        }
        sites.left.run(|| drop(plane)).unwrap();
    });
}

/// The same where only single flows have the aliases, which hosts share.
#[test]
fn errors_of_routers_tell_hosts_of_the_packets_of_single_flows() {
    in_namespaces("errors_of_routers_tell_hosts_of_the_packets_of_single_flows", || {
        let sites = Sites::new();
        let mut config = read(LEFT);
        config.remotes[0].divides_single_flows = true;
        let plane = start(&sites.left, &config, &runtime("flow-errors"));
        run_ip(&sites.right, &["link", "set", "lan", "mtu", "1300"]).unwrap();
        for (family, back, gateway) in [("-4", "198.51.1.0/24", "10.9.1.1"), ("-6", "fd51:1::/64", "fd09:1::1")] {
            run_ip(&sites.right, &[family, "route", "add", back, "via", gateway]).unwrap();
        }
        for (family, [source, to, alias]) in
            [("-4", ["10.1.0.2", "10.2.0.2", "198.51.1.9"]), ("-6", ["fd01::2", "fd02::2", "fd51:1::9"])]
        {
            let [source, destination, alias] = [source, to, alias].map(|text| text.parse::<IpAddr>().unwrap());
            let near = sites.a.run(|| UdpSocket::bind((source, 5000)).unwrap()).unwrap();
            let flow = FlowKey { protocol: 17, source: (source, 5000).into(), destination: (destination, 9).into() };
            let leaving = Addresses { source: alias, destination };
            let rule = DividedRule { flow, aliases: vec![(0, leaving), (1, leaving)] };
            plane.flow_lists().divide_flow(0, &rule).unwrap();
            let knows = || {
                // Too long for the path, until the host has learnt that.
                let _ = near.send_to(&[0; 1400], (destination, 9));
                run_ip(&sites.a, &[family, "route", "get", to]).unwrap().contains("mtu 1300")
            };
            assert!(eventually(knows), "{to}");
            plane.flow_lists().stop_dividing(0, &rule).unwrap();
        }
        sites.left.run(|| drop(plane)).unwrap();
    });
}
