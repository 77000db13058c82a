//! What the kernel does with tables of rules and with policy routes.

use ipnet::IpNet;
use kumade_net::interface::{self, Family};
use kumade_net::namespace::Namespace;
use kumade_net::nftables::{
    Chain, FlowChange, FlowList, FlowListKind, Hook, InstalledTable, LogWatch, Rule, Statement, Table,
};
use kumade_net::policy_routing::{self, MarkedRoute, NetworkRoute, PolicyRoute};
use kumade_net::route_watch::RouteWatch;
use kumade_net::tcp::original_destination;
use kumade_netns_testbed::{TEST_DEADLINE, eventually, in_namespaces, run_ip};
use kumade_packet::{Addresses, FlowKey};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};

fn network(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn chain(name: &str, hook: Option<Hook>, rules: Vec<Vec<Statement>>) -> Chain {
    Chain { name: name.into(), hook, rules: rules.into_iter().map(Rule).collect() }
}

fn round_robin_chain(marks: Vec<u32>) -> Chain {
    let count = |mark: u32| vec![Statement::Mark(mark), Statement::Count(format!("mark-{mark}"))];
    chain("divide", None, vec![vec![Statement::MarkRoundRobin(marks)], count(1), count(2)])
}

fn table(rules: Vec<Vec<Statement>>, marks: Vec<u32>) -> Table {
    let counters = ["mark-1", "mark-2"].map(String::from).to_vec();
    // Another list of marks, so that each rule must find its own.
    let other = chain("other", None, vec![vec![Statement::MarkRoundRobin(vec![3, 4])]]);
    let chains = vec![other, round_robin_chain(marks), chain("arriving", Some(Hook::Prerouting(-300)), rules)];
    Table { name: "kumade-test".into(), counters, flow_lists: vec![], chains }
}

fn send(packets: usize, to: &str) {
    let socket = UdpSocket::bind(if to.contains('[') { "[::1]:0" } else { "127.0.0.1:0" }).unwrap();
    for _ in 0..packets {
        // An ICMP error about an earlier packet may be told in place of sending; then the packet is sent again.
        while socket.send_to(b"data", to).is_err() {}
    }
}

fn packets(table: &InstalledTable) -> [u64; 2] {
    let counts = table.counter_values().unwrap();
    ["mark-1", "mark-2"].map(|name| counts[name].packets)
}

#[test]
fn a_table_becomes_another_one_and_what_is_in_both_keeps_its_counts() {
    in_namespaces("a_table_becomes_another_one_and_what_is_in_both_keeps_its_counts", || {
        let outcome = Namespace::new().unwrap().run(|| {
            let to = |text, chain: &str| vec![Statement::Destination(network(text)), Statement::Goto(chain.into())];
            let before = table(vec![to("127.0.0.0/8", "divide")], vec![1, 2]);
            let installed = InstalledTable::install(&before).unwrap();
            send(19, "127.0.0.1:9");
            let counted = packets(&installed);
            assert!(counted.iter().sum::<u64>() >= 19, "{counted:?}");
            // A chain, a counter and a list come, others go, and rules change.
            let mut after = before.clone();
            after.counters = vec!["mark-2".into(), "third".into()];
            let list = FlowList { name: "flows4".into(), family: Family::V4, kind: FlowListKind::Set };
            after.flow_lists = vec![list];
            let in_list = vec![Statement::FlowInList(Family::V4, "flows4".into()), Statement::Drop];
            let third = vec![Statement::SetMark(2), Statement::Count("third".into())];
            let count = vec![Statement::Mark(2), Statement::Count("mark-2".into())];
            let arriving = vec![to("127.0.0.0/8", "new")];
            after.chains = vec![
                before.chains[0].clone(),
                chain("new", None, vec![in_list, third, count]),
                chain("arriving", Some(Hook::Prerouting(-300)), arriving),
            ];
            installed.change(&before, &after).unwrap();
            send(19, "127.0.0.1:9");
            let counts = installed.counter_values().unwrap();
            let third = counts["third"].packets;
            assert!(third >= 19 && counts["mark-2"].packets == counted[1] + third, "{counts:?} after {counted:?}");
            assert!(!counts.contains_key("mark-1"), "{counts:?}");
            // What it is not is refused as a whole.
            assert!(installed.change(&before, &after).is_err());
            installed.change(&after, &before).unwrap();
            send(19, "127.0.0.1:9");
            assert_eq!(installed.counter_values().unwrap().len(), 2);
            assert!(packets(&installed)[0] > 0);
        });
        outcome.unwrap();
    });
}

#[test]
fn packets_of_both_versions_are_counted_in_turn_and_rules_replaced() {
    in_namespaces("packets_of_both_versions_are_counted_in_turn_and_rules_replaced", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let to = |text| vec![Statement::Destination(network(text)), Statement::Goto("divide".into())];
            let marks = [vec![1; 16], vec![2; 3]].concat();
            let table = table(vec![to("127.0.0.0/8"), to("::1/128")], marks);
            let installed = InstalledTable::install(&table).unwrap();
            send(19, "127.0.0.1:9");
            // ICMP errors go the other way over the same loopback.
            let before = packets(&installed);
            assert_eq!(before.iter().sum::<u64>() % 19, 0, "{before:?}");
            installed.replace_rules(&round_robin_chain(vec![2, 1])).unwrap();
            send(10, "[::1]:9");
            let after = packets(&installed);
            assert_eq!(after[0] - before[0], after[1] - before[1], "{before:?} {after:?}");
            assert!(after[0] > before[0]);
            let taken = InstalledTable::install(&table).unwrap_err().to_string();
            assert!(taken.contains("no other process may have"), "{taken}");
            drop(installed);
            drop(InstalledTable::install(&table).unwrap());
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn a_redirected_connection_knows_where_it_was_to_go() {
    in_namespaces("a_redirected_connection_knows_where_it_was_to_go", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            for (bind, target, network_there) in
                [("0.0.0.0:0", "198.51.100.7:80", "198.51.100.0/24"), ("[::]:0", "[2001:db8::7]:80", "2001:db8::/64")]
            {
                // So that there is a route there.
                interface::add_route("lo", network(network_there)).unwrap();
                let listener = TcpListener::bind(bind).unwrap();
                let port = listener.local_addr().unwrap().port();
                let redirect = vec![
                    Statement::Protocol(6),
                    Statement::Destination(network(network_there)),
                    Statement::Redirect(port),
                ];
                let chains = vec![chain("sent", Some(Hook::OutputNat(-100)), vec![redirect])];
                let table = Table { name: "kumade-test".into(), counters: vec![], flow_lists: vec![], chains };
                assert!(table.to_string().contains(&format!("redirect to :{port}")));
                let installed = InstalledTable::install(&table).unwrap();
                let _stream = TcpStream::connect(target).unwrap();
                let redirected = listener.accept().unwrap().0;
                assert_eq!(original_destination(&redirected).unwrap().to_string(), target);
                drop(installed);
                let local = TcpStream::connect((redirected.local_addr().unwrap().ip(), port)).unwrap();
                assert!(original_destination(&listener.accept().unwrap().0).is_err());
                drop(local);
            }
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn a_table_that_the_kernel_refuses_leaves_nothing() {
    in_namespaces("a_table_that_the_kernel_refuses_leaves_nothing", || {
        let namespace = Namespace::new().unwrap();
        let work = || {
            let bad = table(vec![vec![Statement::Jump("nowhere".into())]], vec![1]);
            assert!(InstalledTable::install(&bad).is_err());
            drop(InstalledTable::install(&table(vec![], vec![1])).unwrap());
        };
        namespace.run(work).unwrap();
    });
}

#[test]
fn routes_of_a_mark_are_added_once_and_removed() {
    in_namespaces("routes_of_a_mark_are_added_once_and_removed", || {
        let namespace = Namespace::new().unwrap();
        run_ip(&namespace, &["link", "add", "va", "type", "veth", "peer", "name", "vb"]).unwrap();
        namespace.run(|| ["va", "vb"].map(|name| interface::set_up(name).unwrap())).unwrap();
        run_ip(&namespace, &["addr", "add", "10.0.0.1/24", "dev", "va"]).unwrap();
        run_ip(&namespace, &["-6", "addr", "add", "fd00::1/64", "dev", "va", "nodad"]).unwrap();
        for (family, option, gateway) in [(Family::V4, "-4", "10.0.0.2"), (Family::V6, "-6", "fd00::2")] {
            let shown = || {
                ["rule", "route"].map(|kind| {
                    let table: &[&str] = if kind == "route" { &["table", "27393"] } else { &[] };
                    run_ip(&namespace, &[&[option, kind, "show"], table].concat()).unwrap_or_default()
                })
            };
            let empty = shown();
            let route = MarkedRoute { number: 27393, family, interface: "va".into(), gateway: gateway.parse().ok() };
            let is_set = || namespace.run(|| route.has_route()).unwrap().unwrap();
            assert!(!is_set());
            namespace.run(|| route.install()).unwrap().unwrap();
            assert!(is_set());
            let [rules, routes] = shown();
            assert!(rules.contains("27393:\tfrom all fwmark 0x6b01 lookup 27393"), "{rules}");
            assert!(routes.contains(&format!("default via {gateway} dev va")), "{routes}");
            assert!(namespace.run(|| route.install()).unwrap().is_err());
            namespace.run(|| route.set_route()).unwrap().unwrap();
            assert_eq!(shown()[1].lines().count(), 1);
            let unreachable = MarkedRoute { gateway: "192.0.2.9".parse().ok(), ..route.clone() };
            if family == Family::V4 {
                let error = namespace.run(|| unreachable.set_route()).unwrap().unwrap_err().to_string();
                assert!(error.contains("must be in a network of the interface"), "{error}");
            }
            namespace.run(|| policy_routing::remove_table(27393, family)).unwrap().unwrap();
            namespace.run(|| policy_routing::remove_table(27393, family)).unwrap().unwrap();
            assert!(!is_set());
            assert_eq!(shown()[0], empty[0]);
            assert_eq!(shown()[1], "");
        }
    });
}

/// As the kernel says where a packet would go.
#[test]
fn a_network_leaves_by_its_own_table_but_for_a_mark_and_smaller_networks() {
    in_namespaces("a_network_leaves_by_its_own_table_but_for_a_mark_and_smaller_networks", || {
        let namespace = Namespace::new().unwrap();
        run_ip(&namespace, &["link", "add", "lan", "type", "veth", "peer", "name", "tunnel"]).unwrap();
        namespace.run(|| ["lan", "tunnel"].map(|name| interface::set_up(name).unwrap())).unwrap();
        for address in ["192.0.2.1/24", "fd00::1/64"] {
            run_ip(&namespace, &["addr", "add", address, "dev", "lan", "nodad"]).unwrap();
        }
        run_ip(&namespace, &["route", "add", "default", "via", "192.0.2.9"]).unwrap();
        run_ip(&namespace, &["-6", "route", "add", "default", "via", "fd00::9"]).unwrap();
        let shown = || [["-4", "rule"], ["-6", "rule"]].map(|kind| run_ip(&namespace, &kind).unwrap());
        let leads_by = |to: &[&str], interface: &str| {
            let route = run_ip(&namespace, &[&["route", "get"], to].concat()).unwrap();
            assert!(route.contains(&format!("dev {interface} ")), "{route}");
        };
        let before = shown();
        let route = |number, network: &str| NetworkRoute {
            number,
            network: network.parse().unwrap(),
            excluded_mark: 7,
            interface: "tunnel".into(),
        };
        let routes = [route(27489, "198.51.100.0/24"), route(27490, "0.0.0.0/0"), route(27490, "::/0")];
        let remnants: Vec<_> = namespace.run(|| routes.iter().flat_map(PolicyRoute::remnants).collect()).unwrap();
        for route in &routes {
            namespace.run(|| route.install()).unwrap().unwrap();
            assert!(!namespace.run(|| route.restore()).unwrap().unwrap());
        }
        for (to, interface) in [
            ("203.0.113.1", "tunnel"),
            ("198.51.100.8", "tunnel"),
            ("192.0.2.5", "lan"),
            ("fd00::5", "lan"),
            ("2001:db8::1", "tunnel"),
        ] {
            leads_by(&[to], interface);
            leads_by(&[to, "mark", "7"], "lan");
        }
        // As large as the network of the tunnel, and smaller ones.
        run_ip(&namespace, &["route", "add", "198.51.100.0/24", "dev", "lan"]).unwrap();
        leads_by(&["198.51.100.8"], "tunnel");
        run_ip(&namespace, &["route", "add", "198.51.100.0/25", "dev", "lan"]).unwrap();
        leads_by(&["198.51.100.8"], "lan");
        run_ip(&namespace, &["route", "del", "198.51.100.0/25"]).unwrap();
        // Nothing leaves past an interface that is down, nor after it came up again until the routes are back.
        run_ip(&namespace, &["link", "set", "tunnel", "down"]).unwrap();
        let is_refused = |to: &str| run_ip(&namespace, &["route", "get", to]).is_err();
        let all_are_refused = || ["203.0.113.1", "198.51.100.8", "2001:db8::1"].into_iter().all(is_refused);
        assert!(all_are_refused() && !is_refused("192.0.2.5"));
        assert!(routes.iter().all(|route| namespace.run(|| route.restore()).unwrap().is_err()));
        run_ip(&namespace, &["link", "set", "tunnel", "up"]).unwrap();
        assert!(all_are_refused());
        assert!(routes.iter().all(|route| namespace.run(|| route.restore()).unwrap().unwrap()));
        leads_by(&["198.51.100.8"], "tunnel");
        leads_by(&["2001:db8::1"], "tunnel");
        for remnant in &remnants {
            namespace.run(|| remnant.remove()).unwrap().unwrap();
        }
        assert_eq!(shown(), before);
        let tables =
            ["-4", "-6"].map(|ip| run_ip(&namespace, &[ip, "route", "show", "table", "all", "type", "unreachable"]));
        assert!(tables.into_iter().all(|routes| !routes.unwrap_or_default().contains("274")));
    });
}

#[test]
fn flows_are_noted_told_apart_and_translated_while_rules_stay() {
    in_namespaces("flows_are_noted_told_apart_and_translated_while_rules_stay", || {
        let namespace = Namespace::new().unwrap();
        namespace
            .run(|| check_flow_lists_and_translation(Family::V4, ["127.0.0.1", "127.0.0.7", "127.0.0.5"]))
            .unwrap();
        for address in ["::5", "::7"] {
            run_ip(&namespace, &["-6", "addr", "add", address, "dev", "lo", "nodad"]).unwrap();
        }
        namespace.run(|| check_flow_lists_and_translation(Family::V6, ["::1", "::7", "::5"])).unwrap();
    });
}

fn check_flow_lists_and_translation(family: Family, addresses: [&str; 3]) {
    const UDP: u8 = 17;
    let [own, source, destination] = addresses.map(|text| text.parse::<IpAddr>().unwrap());
    let list = |name: &str, kind| FlowList { name: name.into(), family, kind };
    let rules = vec![
        vec![Statement::TranslateFlow(family, "to".into()), Statement::Accept],
        vec![Statement::FlowInList(family, "known".into()), Statement::Accept],
        vec![Statement::Protocol(UDP), Statement::AddFlow(family, "seen".into())],
    ];
    let seen = FlowListKind::Dynamic { timeout_millis: 60_000, max_entries: 100 };
    let table = Table {
        name: "kumade-test".into(),
        counters: vec![],
        flow_lists: vec![list("known", FlowListKind::Set), list("to", FlowListKind::Translation), list("seen", seen)],
        chains: vec![chain("arriving", Some(Hook::Prerouting(-300)), rules)],
    };
    let installed = InstalledTable::install(&table).unwrap();
    let near = UdpSocket::bind((own, 0)).unwrap();
    let plain = UdpSocket::bind((own, 0)).unwrap();
    let port = plain.local_addr().unwrap().port();
    let translated = UdpSocket::bind((destination, port)).unwrap();
    let flow = FlowKey { protocol: UDP, source: near.local_addr().unwrap(), destination: (own, port).into() };
    let send = |data: &[u8]| near.send_to(data, (own, port)).map(drop).unwrap();
    let receive = |socket: &UdpSocket| {
        let mut buffer = [0; 9];
        socket.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        (buffer[..length].to_vec(), from.ip())
    };
    send(b"first");
    assert_eq!(receive(&plain), (b"first".to_vec(), own));
    assert_eq!(installed.flows("seen").unwrap().into_keys().collect::<Vec<_>>(), [flow]);

    let to = Addresses { source, destination };
    let add = [FlowChange::Add("known".into(), flow, None), FlowChange::Add("to".into(), flow, Some(to))];
    installed.change_flows(&add).unwrap();
    send(b"second");
    send(b"third");
    assert_eq!(receive(&translated), (b"second".to_vec(), source));
    assert_eq!(receive(&translated), (b"third".to_vec(), source));
    assert_eq!(installed.flows("to").unwrap()[&flow].packets, 2);
    assert!(installed.change_flows(&add).is_err());
    installed.change_flows(&[FlowChange::Remove("to".into(), flow)]).unwrap();
    send(b"fourth");
    assert_eq!(receive(&plain), (b"fourth".to_vec(), own));
    assert_eq!(installed.flows("known").unwrap()[&flow].packets, 1);
    assert_eq!(installed.flows("to").unwrap().len(), 0);
    // Neither change is made where one of them cannot be.
    let both = [FlowChange::Remove("known".into(), flow), FlowChange::Remove("to".into(), flow)];
    assert!(installed.change_flows(&both).is_err());
    assert_eq!(installed.flows("known").unwrap().len(), 1);
}

#[test]
fn who_watches_routes_learns_of_each_change_and_of_nothing_else() {
    in_namespaces("who_watches_routes_learns_of_each_change_and_of_nothing_else", || {
        let namespace = Namespace::new().unwrap();
        let watch = namespace.run(|| RouteWatch::open().unwrap()).unwrap();
        let ip = |arguments: &str| run_ip(&namespace, &arguments.split(' ').collect::<Vec<_>>()).unwrap();
        assert!(!watch.take_change());
        for change in [
            "link add one type veth peer name two",
            "link set one up",
            "link set two up",
            "addr add 10.1.0.1/24 dev one",
            "route add 10.2.0.0/16 dev one",
            "-6 addr add fd01::1/64 dev one nodad",
            "-6 route add fd02::/64 dev one",
            "route add default dev one table 9",
            "-6 route del fd02::/64",
            // With it go its routes, of which the kernel tells nothing.
            "link set one down",
        ] {
            ip(change);
            assert!(eventually(|| watch.take_change()), "{change}");
            // The kernel goes on for a while: addresses come into use, and links up.
            assert!(eventually(|| !watch.take_change()), "{change}");
        }
        // In another namespace.
        run_ip(&Namespace::new().unwrap(), &["link", "set", "lo", "up"]).unwrap();
        assert!(eventually(|| !watch.take_change()));
        // More than it keeps.
        ip("link set one up");
        for number in 0..200 {
            ip(&format!("route add 10.9.{number}.0/24 dev one"));
        }
        assert!(watch.take_change() && eventually(|| !watch.take_change()));
    });
}

#[test]
fn who_watches_a_log_learns_of_each_flow_that_begins_once() {
    in_namespaces("who_watches_a_log_learns_of_each_flow_that_begins_once", || {
        const GROUP: u16 = 9;
        let outcome = Namespace::new().unwrap().run(|| {
            let watch = LogWatch::open(GROUP).unwrap();
            let taken = LogWatch::open(GROUP).unwrap_err().to_string();
            assert!(taken.contains("log group 9") && taken.contains("modprobe nfnetlink_log"), "{taken}");
            let (family, list) = (Family::V4, "seen".to_owned());
            let rules = vec![
                vec![Statement::FlowInList(family, list.clone()), Statement::Return],
                vec![Statement::Protocol(17), Statement::AddFlow(family, list.clone()), Statement::Log(GROUP)],
            ];
            let kind = FlowListKind::Dynamic { timeout_millis: 3_600_000, max_entries: 100 };
            let table = Table {
                name: "kumade-test".into(),
                counters: vec![],
                flow_lists: vec![FlowList { name: list, family, kind }],
                chains: vec![chain("arriving", Some(Hook::Prerouting(-300)), rules)],
            };
            let _installed = InstalledTable::install(&table).unwrap();
            assert!(!watch.take_packets());
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let own = socket.local_addr().unwrap();
            for far in ["127.0.0.1:0", "127.0.0.2:0"] {
                let sender = UdpSocket::bind(far).unwrap();
                sender.send_to(b"first", own).unwrap();
                assert!(eventually(|| watch.take_packets()));
                sender.send_to(b"second", own).unwrap();
                // Both have passed the rules.
                (0..2).for_each(|_| assert!(socket.recv(&mut [0; 8]).is_ok()));
                assert!(!watch.take_packets());
            }
            drop(watch);
            LogWatch::open(GROUP).unwrap();
        });
        outcome.unwrap();
    });
}
