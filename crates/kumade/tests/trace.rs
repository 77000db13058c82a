//! The routers' own answers, with two routers of the kernel in a row, of which one changes marks (nftables), and with the program as users run it.

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
            host.run(|| write_setting("ipv4/ip_forward", "1")).unwrap();
            host.run(|| write_setting("ipv6/conf/all/forwarding", "1")).unwrap();
            // Many traces follow one another; Linux answers one packet a second after the first six.
            host.run(|| write_setting("ipv4/icmp_ratelimit", "0")).unwrap();
            host.run(|| write_setting("ipv6/icmp/ratelimit", "0")).unwrap();
        }
        let Ok([client, first, second, far]) = <[Namespace; 4]>::try_from(hosts) else { unreachable!() };
        TwoRouters { _server: serve(&far), client, second, first, _far: far }
    }

    /// What the program prints for an address.
    fn measure(&self, address: &str, more: &[&str]) -> String {
        let mut command = self.client.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.args(["measure", address, "--trace", "--no-capacity", "--method", "linear-scan:packets=10"]);
        let output = command.args(more).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.stdout.is_empty(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The trace, and the changes in it.
    fn trace(&self, address: &str) -> (Value, Value) {
        let document: Value = serde_json::from_str(&self.measure(address, &["--json"])).unwrap();
        let trace = document["path"]["trace"].clone();
        assert!(trace.is_object(), "{document}");
        (trace["changes"].clone(), trace)
    }
}

#[test]
fn routers_on_the_way_answer_and_tell_where_marks_change() {
    in_namespaces("trace::routers_on_the_way_answer_and_tell_where_marks_change", || {
        let path = TwoRouters::new();
        an_untouched_path_has_two_routers_and_no_changes(&path);
        if !treat(&path.second, &forward("")) {
            println!("not tested: this system has no nft, or no nf_tables");
            return;
        }
        changes_are_placed_between_two_hops(&path);
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
            assert!((1..=3).contains(&answered), "{trace}");
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
    let text = path.measure(ADDRESSES[0], &[]);
    let flowing = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "DSCP changes from AF41 to AF11 between hop 1 (10.83.1.2) and hop 2 (10.83.2.2).";
    assert!(flowing.contains(sentence), "{text}");
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
    let (found, trace) = (&document["path"], &document["path"]["trace"]);
    for (hop, router) in [(0, "10.83.1.2"), (1, "10.83.2.2")] {
        let hop = &trace["hops"][hop];
        assert!(hop["addresses"][router].as_u64().unwrap() > 0, "{trace}");
        assert_eq!((&hop["dscp"], &hop["ecn"]), (&json!({}), &json!({})), "{trace}");
    }
    assert_eq!((&trace["changes"][0]["after_hop"], &trace["changes"][0]["before_hop"]), (&json!(0), &Value::Null));
    let not_known = found["not_known"].as_array().unwrap();
    let is_of_quotes = |text: &Value| text.as_str().is_some_and(|text| text.contains("may read what routers quote"));
    assert!(not_known.iter().any(is_of_quotes), "{found}");
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
