//! The routers' own answers, with two routers of the kernel in a row, of which one changes marks (nftables), with two side by side (ECMP), and with
//! the program as users run it.

use crate::path::{Ended, forward, serve, treat, write_setting};
use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{add_veth, in_namespaces, run_ip, wait_for_cables};
use serde_json::{Value, json};

/// A host that measures, two routers, and a host that serves; the interface of each to the next one is `next`, and to the one before `last`.
struct TwoRouters {
    client: Namespace,
    second: Namespace,
    first: Namespace,
    _server: Ended,
    /// Lives as long as its process.
    _far: Namespace,
}

/// Of the server.
const ADDRESSES: [&str; 2] = ["10.83.3.2", "fd83:3::2"];

impl TwoRouters {
    fn new() -> Self {
        let hosts: Vec<Namespace> = (0..4).map(|_| Namespace::new().unwrap()).collect();
        for (network, pair) in (1..).zip(hosts.windows(2)) {
            add_veth((&pair[0], "next"), (&pair[1], "last")).unwrap();
            for (number, (host, device)) in (1..).zip([(&pair[0], "next"), (&pair[1], "last")]) {
                let ip = |arguments: &[&str]| drop(run_ip(host, arguments).unwrap());
                ip(&["addr", "add", &format!("10.83.{network}.{number}/24"), "dev", device]);
                ip(&["-6", "addr", "add", &format!("fd83:{network}::{number}/64"), "dev", device, "nodad"]);
                // Without one, no router asks for a neighbour.
                ip(&["-6", "addr", "add", &format!("fe80::{number}/64"), "dev", device, "nodad"]);
                host.run(|| interface::set_up(device)).unwrap().unwrap();
            }
        }
        wait_for_cables(&hosts).unwrap();
        // Each sends to all networks behind the next host, and before the last.
        for (place, host) in hosts.iter().enumerate() {
            let ip = |arguments: &[&str]| drop(run_ip(host, arguments).unwrap());
            for network in 1..=3 {
                let via = match network {
                    network if network > place + 1 => {
                        [format!("10.83.{}.2", place + 1), format!("fd83:{}::2", place + 1)]
                    }
                    network if network < place => [format!("10.83.{place}.1"), format!("fd83:{place}::1")],
                    _ => continue,
                };
                ip(&["route", "add", &format!("10.83.{network}.0/24"), "via", &via[0]]);
                ip(&["-6", "route", "add", &format!("fd83:{network}::/64"), "via", &via[1]]);
            }
            make_router(host);
        }
        let Ok([client, first, second, far]) = <[Namespace; 4]>::try_from(hosts) else { unreachable!() };
        TwoRouters { _server: serve(&far), client, second, first, _far: far }
    }

    /// The trace up, and the changes in it.
    fn trace(&self, address: &str) -> (Value, Value) {
        self.trace_with(address, &[])
    }

    /// The same with these options.
    fn trace_with(&self, address: &str, more: &[&str]) -> (Value, Value) {
        let path = traced_path(&self.client, address, more);
        let trace = path["up"]["trace"].clone();
        assert!(trace.is_object(), "{path}");
        (trace["changes"].clone(), trace)
    }
}

/// Forwards, and answers as often as it is asked.
fn make_router(host: &Namespace) {
    for (setting, value) in [
        ("ipv4/ip_forward", "1"),
        ("ipv6/conf/all/forwarding", "1"),
        // Many traces follow one another; Linux answers one packet a second after the first six.
        ("ipv4/icmp_ratelimit", "0"),
        ("ipv6/icmp/ratelimit", "0"),
    ] {
        host.run(|| write_setting(setting, value)).unwrap();
    }
}

/// What the program prints for an address.
fn measure(client: &Namespace, address: &str, more: &[&str]) -> String {
    let mut command = client.command(assert_cmd::cargo::cargo_bin("kumade"));
    command.args(["measure", address, "--trace", "--no-capacity", "--method", "linear-scan:packets=10"]);
    let output = command.args(more).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.stdout.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The section on the path.
fn traced_path(client: &Namespace, address: &str, more: &[&str]) -> Value {
    let document: Value = serde_json::from_str(&measure(client, address, &[more, &["--json"]].concat())).unwrap();
    document["path"].clone()
}

fn is_told(path: &Value, part: &str) -> bool {
    path["not_known"].as_array().unwrap().iter().any(|text| text.as_str().is_some_and(|text| text.contains(part)))
}

#[test]
fn routers_on_the_way_answer_and_tell_where_marks_change() {
    in_namespaces("trace::routers_on_the_way_answer_and_tell_where_marks_change", || {
        let path = TwoRouters::new();
        an_untouched_path_has_two_routers_and_no_changes(&path);
        the_far_end_asks_the_routers_on_the_way_down(&path);
        if !treat(&path.second, &forward("")) {
            println!("not tested: this system has no nft, or no nf_tables");
            return;
        }
        changes_are_placed_between_two_hops(&path);
        over_tcp_changes_are_placed_by_syns(&path);
        without_privilege_routers_answer_and_quotes_are_not_read(&path);
        routers_that_do_not_answer_are_told_as_such(&path);
    });
}

fn an_untouched_path_has_two_routers_and_no_changes(path: &TwoRouters) {
    for (address, routers) in ADDRESSES.into_iter().zip([["10.83.1.2", "10.83.2.2"], ["fd83:1::2", "fd83:2::2"]]) {
        let (changes, trace) = path.trace(address);
        assert_eq!(changes, json!([]), "{trace}");
        assert_eq!((&trace["dscp"], &trace["ecn"]), (&json!("EF"), &json!("ECT(0)")), "{trace}");
        let hops = trace["hops"].as_array().unwrap();
        assert_eq!(hops.len(), 2, "{trace}");
        for (hop, router) in hops.iter().zip(routers) {
            let answered = hop["answered"].as_u64().unwrap();
            assert!((1..=6).contains(&answered), "{trace}");
            assert_eq!(hop["addresses"], json!({ router: answered }), "{trace}");
            assert_eq!(hop["answers"], json!({ "time exceeded": answered }), "{trace}");
            assert_eq!((&hop["dscp"], &hop["ecn"]), (&json!({ "EF": answered }), &json!({ "ECT(0)": answered })));
            assert!(hop["round_trip_seconds"].as_f64().unwrap() >= 0.0, "{trace}");
        }
        let far_end = &trace["far_end"];
        assert!(far_end["arrived"].as_u64().unwrap() > 0, "{trace}");
        assert_eq!(far_end["dscp"], json!({ "EF": far_end["arrived"] }), "{trace}");
    }
}

fn changes_are_placed_between_two_hops(path: &TwoRouters) {
    let change = |field: &str, from: &str, to: &str, after: u8, before: Option<u8>| json!({ "field": field, "from": from, "to": to, "after_hop": after, "before_hop": before });
    // As it sends them on, so that its own answer quotes what came.
    let udp = "iifname last meta l4proto udp";
    assert!(treat(&path.second, &forward(&format!("{udp} ip dscp set cs0\n{udp} ip6 ecn set not-ect"))));
    let (changes, trace) = path.trace(ADDRESSES[0]);
    assert_eq!(changes, json!([change("DSCP", "EF", "CS0", 2, None)]), "{trace}");
    let (changes, trace) = path.trace(ADDRESSES[1]);
    assert_eq!(changes, json!([change("ECN", "ECT(0)", "Not-ECT", 2, None)]), "{trace}");

    assert!(treat(&path.second, ""));
    assert!(treat(
        &path.first,
        &forward(&format!("{udp} ip dscp af41 ip dscp set af11\n{udp} ip ecn ect1 ip ecn set ce"))
    ));
    let (changes, trace) = path.trace(ADDRESSES[0]);
    let expected = [change("DSCP", "AF41", "AF11", 1, Some(2)), change("ECN", "ECT(1)", "CE", 1, Some(2))];
    assert_eq!(changes, json!(expected), "{trace}");
    let text = measure(&path.client, ADDRESSES[0], &[]);
    let flowing = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "up: DSCP changes from AF41 to AF11 between hop 1 (10.83.1.2) and hop 2 (10.83.2.2).";
    assert!(flowing.contains(sentence), "{text}");
    assert!(treat(&path.first, ""));
}

/// A confined server may not read what routers quote.
fn the_far_end_asks_the_routers_on_the_way_down(path: &TwoRouters) {
    for (address, routers) in ADDRESSES.into_iter().zip([["10.83.3.1", "10.83.2.1"], ["fd83:3::1", "fd83:2::1"]]) {
        let found = traced_path(&path.client, address, &[]);
        let trace = &found["down"]["trace"];
        let hops = trace["hops"].as_array().unwrap_or_else(|| panic!("{found}"));
        assert_eq!(hops.len(), 2, "{trace}");
        for (hop, router) in hops.iter().zip(routers) {
            let answered = hop["answered"].as_u64().unwrap();
            assert!((1..=6).contains(&answered), "{trace}");
            assert_eq!(hop["addresses"], json!({ router: answered }), "{trace}");
            assert_eq!((&hop["dscp"], &hop["ecn"]), (&json!({}), &json!({})), "{trace}");
        }
        assert_eq!(trace["paths"][0]["addresses"], json!(routers), "{trace}");
        let far_end = &trace["far_end"];
        assert!(far_end["arrived"].as_u64().unwrap() > 0, "{trace}");
        assert_eq!(far_end["dscp"], json!({ "EF": far_end["arrived"] }), "{trace}");
        assert!(is_told(&found, "the far end may not read what routers quote"), "{found}");
    }
    let text = measure(&path.client, ADDRESSES[0], &[]);
    assert!(text.contains("\nRouters on the way down, by UDP:\n"), "{text}");
    assert!(text.contains("\ndown: 6 flows take the same path. A second one"), "{text}");
}

fn over_tcp_changes_are_placed_by_syns(path: &TwoRouters) {
    let tcp = "iifname last meta l4proto tcp";
    assert!(treat(&path.first, &forward(&format!("{tcp} ip dscp set cs0\n{tcp} ip6 dscp set af11"))));
    for (address, to, routers) in
        [(ADDRESSES[0], "CS0", ["10.83.1.2", "10.83.2.2"]), (ADDRESSES[1], "AF11", ["fd83:1::2", "fd83:2::2"])]
    {
        let (changes, trace) = path.trace_with(address, &["--transport", "rake"]);
        assert_eq!((&trace["protocol"], &trace["far_end"]), (&json!("tcp"), &Value::Null), "{trace}");
        assert_eq!((&trace["dscp"], &trace["ecn"]), (&json!("EF"), &json!("Not-ECT")), "{trace}");
        let expected = json!({ "field": "DSCP", "from": "EF", "to": to, "after_hop": 1, "before_hop": 2 });
        assert_eq!(changes, json!([expected]), "{trace}");
        assert_eq!(trace["paths"][0]["addresses"], json!(routers), "{trace}");
    }
    let found = traced_path(&path.client, ADDRESSES[0], &["--transport", "rake"]);
    assert!(found["down"]["trace"].is_null() && is_told(&found, "the routers on the way down: over TCP"), "{found}");
    assert!(treat(&path.first, ""));
}

/// Where util-linux has no setpriv, that is passed over.
fn without_privilege_routers_answer_and_quotes_are_not_read(path: &TwoRouters) {
    assert!(treat(&path.first, &forward("iifname last meta l4proto udp ip dscp set cs0")));
    let mut command = path.client.command("setpriv");
    command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"]).arg(assert_cmd::cargo::cargo_bin("kumade"));
    command.args(["measure", ADDRESSES[0], "--trace", "--json", "--no-capacity", "--method", "linear-scan:packets=10"]);
    let Ok(output) = command.output() else { return println!("not tested without CAP_NET_RAW: no setpriv") };
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let (found, trace) = (&document["path"], &document["path"]["up"]["trace"]);
    for (hop, router) in [(0, "10.83.1.2"), (1, "10.83.2.2")] {
        let hop = &trace["hops"][hop];
        assert!(hop["addresses"][router].as_u64().unwrap() > 0, "{trace}");
        assert_eq!((&hop["dscp"], &hop["ecn"]), (&json!({}), &json!({})), "{trace}");
    }
    assert_eq!((&trace["changes"][0]["after_hop"], &trace["changes"][0]["before_hop"]), (&json!(0), &Value::Null));
    assert!(is_told(found, "this process may not read what routers quote"), "{found}");
}

fn routers_that_do_not_answer_are_told_as_such(path: &TwoRouters) {
    let silent = "chain out {\ntype filter hook output priority 0\nicmp type time-exceeded drop\n}";
    assert!(treat(&path.first, silent));
    let drop_ef = forward("iifname last meta l4proto udp ip dscp ef reject with icmp admin-prohibited");
    assert!(treat(&path.second, &drop_ef));
    let (_, trace) = path.trace(ADDRESSES[0]);
    let hops = &trace["hops"];
    assert_eq!((&trace["dscp"], &trace["far_end"]["arrived"]), (&json!("EF"), &json!(0)), "{trace}");
    assert_eq!((&hops[0]["answered"], &hops[0]["round_trip_seconds"]), (&json!(0), &Value::Null), "{trace}");
    assert_eq!(hops[1]["addresses"].as_object().unwrap().keys().collect::<Vec<_>>(), ["10.83.2.2"], "{trace}");
    // Packets that go further are refused.
    assert!(hops[2]["answers"]["administratively prohibited"].as_u64().unwrap() > 0, "{trace}");
}

/// A host that measures, a router that spreads flows over two others side by side, where these meet again, another one, which spreads those that
/// come back, and a host that serves.
struct SpreadingRouters {
    client: Namespace,
    _server: Ended,
    /// Live as long as their processes.
    _others: Vec<Namespace>,
}

/// Each with the network's number, in its addresses.
const SPREADING_LINKS: [(usize, usize); 6] = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)];

impl SpreadingRouters {
    fn new() -> Self {
        let mut hosts: Vec<Namespace> = (0..6).map(|_| Namespace::new().unwrap()).collect();
        for ((one, other), network) in SPREADING_LINKS.into_iter().zip(1..) {
            let device = format!("link{network}");
            add_veth((&hosts[one], &device), (&hosts[other], &device)).unwrap();
            for (host, number) in [(&hosts[one], 1), (&hosts[other], 2)] {
                let ip = |arguments: &[&str]| drop(run_ip(host, arguments).unwrap());
                ip(&["addr", "add", &format!("10.84.{network}.{number}/24"), "dev", &device]);
                ip(&["-6", "addr", "add", &format!("fd84:{network}::{number}/64"), "dev", &device, "nodad"]);
                ip(&["-6", "addr", "add", &format!("fe80::{number}/64"), "dev", &device, "nodad"]);
                host.run(|| interface::set_up(&device)).unwrap().unwrap();
            }
        }
        wait_for_cables(&hosts).unwrap();
        // Of which host, to which network, by which others.
        let routes: [(usize, u8, &[&str]); 8] = [
            (0, 6, &["1::2"]),
            (1, 6, &["2::2", "3::2"]),
            (2, 6, &["4::2"]),
            (3, 6, &["5::2"]),
            (2, 1, &["2::1"]),
            (3, 1, &["3::1"]),
            (4, 1, &["4::1", "5::1"]),
            (5, 1, &["6::1"]),
        ];
        for (host, network, next) in routes {
            let next_hops = |v6: bool| {
                let address =
                    |next: &str| if v6 { format!("fd84:{next}") } else { format!("10.84.{}", next.replace("::", ".")) };
                next.iter()
                    .flat_map(move |next| ["nexthop".to_owned(), "via".to_owned(), address(next)])
                    .collect::<Vec<_>>()
            };
            for (version, to, next) in [
                ("-4", format!("10.84.{network}.0/24"), next_hops(false)),
                ("-6", format!("fd84:{network}::/64"), next_hops(true)),
            ] {
                let next: Vec<&str> = next.iter().map(String::as_str).collect();
                run_ip(&hosts[host], &[&[version, "route", "add", to.as_str()][..], &next].concat()).unwrap();
            }
        }
        for host in &hosts {
            make_router(host);
            // By ports as well as addresses, as headers have them: by policy 1 it is the hash that a TCP socket was given at random, which virtual Ethernet
            // passes on. And a router answers from the address at which a packet came.
            // Of routers that answer seldom, nothing is said: here all answers come.
            for (setting, value) in [
                ("ipv4/fib_multipath_hash_policy", "3"),
                ("ipv6/fib_multipath_hash_policy", "3"),
                ("ipv4/fib_multipath_hash_fields", "55"),
                ("ipv6/fib_multipath_hash_fields", "55"),
                ("ipv4/icmp_errors_use_inbound_ifaddr", "1"),
                ("ipv4/icmp_ratelimit", "0"),
                ("ipv6/icmp/ratelimit", "0"),
            ] {
                host.run(|| write_setting(setting, value)).unwrap();
            }
        }
        let server = serve(&hosts[5]);
        let client = hosts.remove(0);
        SpreadingRouters { client, _server: server, _others: hosts }
    }
}

/// Whether all members are found, of a trace on which the second of three hops has these two; those that are said are right in any case.
fn finds_both_members(trace: &Value, [one, other]: [&str; 2]) -> bool {
    assert_eq!(trace["hops"].as_array().map(Vec::len), Some(3), "{trace}");
    let addresses = trace["hops"][1]["addresses"].as_object().unwrap();
    assert!(addresses.keys().all(|address| [one, other].contains(&address.as_str())), "{trace}");
    let has_both = addresses.len() == 2;
    let (flows, expected) = (trace["hops"][1]["flows_answered"].as_u64().unwrap(), if has_both { 11 } else { 6 });
    // Where a router did not answer all flows, nothing is said of paths.
    let Some(confidence) = trace["paths_confidence"].as_f64() else {
        assert_eq!(trace["paths"].as_array().map(Vec::len), Some(0), "{trace}");
        return false;
    };
    assert!(flows <= expected && (flows < expected || confidence >= 0.95), "{trace}");
    let of_members =
        trace["paths"].as_array().unwrap().iter().map(|member| member["addresses"][1].as_str().unwrap_or(""));
    assert_eq!(of_members.filter(|address| [one, other].contains(address)).count() >= 2, has_both, "{trace}");
    has_both
}

/// Each attempt has other ports, and so other flows: six of them take one way alone in one of 32.
#[test]
fn routers_side_by_side_are_told_apart_in_both_directions_and_over_tcp() {
    in_namespaces("trace::routers_side_by_side_are_told_apart_in_both_directions_and_over_tcp", || {
        let path = SpreadingRouters::new();
        let find = |address: &str, direction: &str, members: [&str; 2], options: &[&str]| {
            let attempt =
                |_| finds_both_members(&traced_path(&path.client, address, options)[direction]["trace"], members);
            assert!((0..8).any(attempt), "{address} {direction} {options:?}");
        };
        find("10.84.6.2", "up", ["10.84.2.2", "10.84.3.2"], &[]);
        find("10.84.6.2", "down", ["10.84.4.1", "10.84.5.1"], &[]);
        find("10.84.6.2", "up", ["10.84.2.2", "10.84.3.2"], &["--transport", "rake"]);
        find("fd84:6::2", "up", ["fd84:2::2", "fd84:3::2"], &[]);
        let text = (0..8).map(|_| measure(&path.client, "10.84.6.2", &[])).find(|text| text.contains("(ECMP)"));
        let text = text.expect("two paths");
        let flowing = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flowing.contains("11 flows take 2 paths (ECMP): ") && flowing.contains("% probability."), "{text}");
    });
}
