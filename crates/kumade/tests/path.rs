//! What a path does to packets, with a router of the kernel on it that does it (nftables), and with the program as users run it.

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{VethHosts, in_namespaces, run_ip};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

/// Ended when dropped.
pub(crate) struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host that measures, a router, and a host that serves.
pub(crate) struct RoutedPath {
    pub(crate) hosts: VethHosts,
    _server: Ended,
}

/// Of the server.
pub(crate) const ADDRESSES: [&str; 2] = ["10.80.2.2", "fd80:2::2"];

impl RoutedPath {
    pub(crate) fn new() -> Self {
        Self::with_server(&[])
    }

    /// Whose server has these options; its host has `10.80.2.3` as well.
    pub(crate) fn with_server(options: &[&str]) -> Self {
        let hosts = VethHosts::new(1500).unwrap();
        let ends =
            [(&hosts.left, VethHosts::MIDDLE_INTERFACES[0], 1), (&hosts.right, VethHosts::MIDDLE_INTERFACES[1], 2)];
        for (host, port, network) in ends {
            let [v4, v6] = [format!("10.80.{network}."), format!("fd80:{network}::")];
            let ip = |inside, arguments: &[&str]| drop(run_ip(inside, arguments).unwrap());
            ip(&hosts.middle, &["addr", "add", &format!("{v4}1/24"), "dev", port]);
            ip(&hosts.middle, &["-6", "addr", "add", &format!("{v6}1/64"), "dev", port, "nodad"]);
            // Without one, no router asks for a neighbour.
            ip(&hosts.middle, &["-6", "addr", "add", "fe80::1/64", "dev", port, "nodad"]);
            ip(host, &["addr", "add", &format!("{v4}2/24"), "dev", VethHosts::DEVICE]);
            ip(host, &["-6", "addr", "add", &format!("{v6}2/64"), "dev", VethHosts::DEVICE, "nodad"]);
            ip(host, &["route", "add", "10.80.0.0/16", "via", &format!("{v4}1")]);
            ip(host, &["-6", "route", "add", "fd80::/16", "via", &format!("{v6}1"), "metric", "1"]);
        }
        hosts.middle.run(|| write_setting("ipv4/ip_forward", "1")).unwrap();
        hosts.middle.run(|| write_setting("ipv6/conf/all/forwarding", "1")).unwrap();
        // A host that requests ECN, in this namespace of its own.
        hosts.left.run(|| write_setting("ipv4/tcp_ecn", "1")).unwrap();
        run_ip(&hosts.right, &["addr", "add", "10.80.2.3/24", "dev", VethHosts::DEVICE]).unwrap();
        let server = serve_with(&hosts.right, options);
        RoutedPath { hosts, _server: server }
    }

    /// Has the router do this with packets that it forwards, and nothing else; false where this system can't. `{up}` is the interface by which
    /// packets to the server come, `{down}` that of packets to the client.
    pub(crate) fn treat(&self, chains: &str) -> bool {
        let [up, down] = VethHosts::MIDDLE_INTERFACES;
        treat(&self.hosts.middle, &chains.replace("{up}", up).replace("{down}", down))
    }

    /// The report on the path to this address.
    fn report(&self, address: &str) -> Value {
        self.report_with(address, &["--path"])
    }

    /// The same with other options.
    pub(crate) fn report_with(&self, address: &str, options: &[&str]) -> Value {
        let mut command = self.hosts.left.command(assert_cmd::cargo::cargo_bin("kumade"));
        command
            .args(["measure", address, "--json", "--no-capacity", "--method", "linear-scan:packets=10"])
            .args(options);
        let output = command.output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(document["path"].is_object(), "{document} {}", String::from_utf8_lossy(&output.stderr));
        document
    }

    /// Its section on that.
    fn measure(&self, address: &str) -> Value {
        self.report(address)["path"].take()
    }
}

/// A server that listens.
pub(crate) fn serve(host: &Namespace) -> Ended {
    serve_with(host, &[])
}

fn serve_with(host: &Namespace, options: &[&str]) -> Ended {
    let mut server = host.command(assert_cmd::cargo::cargo_bin("kumade"));
    let mut server = Ended(server.arg("serve").args(options).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("listening on ")));
    // The server must not be stopped by a full pipe.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    server
}

/// Has a router do this with packets, and nothing else; false where this system can't.
pub(crate) fn treat(router: &Namespace, chains: &str) -> bool {
    let rules = format!("flush ruleset\ntable inet treatment {{\n{chains}\n}}\n");
    let nft = ["/usr/sbin/nft", "/sbin/nft"].into_iter().find(|path| Path::new(path).exists()).unwrap_or("nft");
    let started = router.command(nft).args(["-f", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut running) = started else { return false };
    running.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    running.wait().unwrap().success()
}

pub(crate) fn write_setting(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
}

/// Packets that are forwarded.
pub(crate) fn forward(rules: &str) -> String {
    format!("chain forwarded {{\ntype filter hook forward priority 0\n{rules}\n}}")
}

/// What became of each mark, by name.
fn treatments<'r>(path: &'r Value, direction: &str, kind: &str) -> Vec<(&'r str, &'r str)> {
    let marks = path[direction][kind].as_array().unwrap_or_else(|| panic!("{path}"));
    marks.iter().map(|mark| (mark["mark"].as_str().unwrap(), mark["treatment"].as_str().unwrap())).collect()
}

fn treatment<'r>(path: &'r Value, direction: &str, name: &str) -> &'r str {
    let both = ["ecn", "dscp"].map(|kind| treatments(path, direction, kind));
    both.into_iter().flatten().find(|(mark, _)| *mark == name).unwrap().1
}

/// That all but these marks are kept in a direction.
fn assert_kept_but(path: &Value, direction: &str, exceptions: &[(&str, &str)]) {
    for (mark, found) in ["ecn", "dscp"].map(|kind| treatments(path, direction, kind)).into_iter().flatten() {
        let expected = exceptions.iter().find(|(name, _)| *name == mark).map_or("kept", |(_, treatment)| treatment);
        assert_eq!(found, expected, "{direction} {mark}: {path}");
    }
}

#[test]
fn what_a_router_does_to_packets_is_reported() {
    in_namespaces("path::what_a_router_does_to_packets_is_reported", || {
        let path = RoutedPath::new();
        an_untouched_path_is_reported_as_such(&path);
        if !path.treat(&forward("")) {
            println!("not tested: this system has no nft, or no nf_tables");
            return;
        }
        marks_that_are_changed_or_dropped_are_told(&path);
        rejected_marks_are_told_and_stop_nothing(&path);
        treatment_beside_losses_is_told(&path);
        what_is_done_to_tcp_is_told(&path);
        translated_addresses_are_told(&path);
        a_link_with_a_small_mtu_is_told(&path);
    });
}

fn an_untouched_path_is_reported_as_such(path: &RoutedPath) {
    for address in ADDRESSES {
        let found = path.measure(address);
        for direction in ["up", "down"] {
            assert_kept_but(&found, direction, &[]);
            let found = &found[direction];
            assert_eq!(found["dscp_pattern"], "all-kept", "{found}");
            assert_eq!(found["hop_limit"]["routers"], 1, "{found}");
            assert_eq!((&found["mtu"]["passed_bytes"], &found["mtu"]["lost_bytes"]), (&1500.into(), &Value::Null));
        }
        assert_eq!(found["ecn_readiness"]["grade"], "l4s", "{found}");
        let (tcp, empty) = (&found["tcp"], Value::Array(Vec::new()));
        assert_eq!((&tcp["syn"]["options_removed"], &tcp["syn"]["options_added"]), (&empty, &empty), "{found}");
        assert_eq!((&tcp["syn"]["ecn_sent"], &tcp["syn"]["ecn_arrived"]), (&"classic".into(), &"classic".into()));
        assert_eq!((&tcp["has_ecn"], &tcp["syn"]["hop_limit"]["routers"]), (&true.into(), &1.into()), "{found}");
        assert_eq!(tcp["ect_seen"], serde_json::json!([true, true]), "{found}");
        for mss in [&tcp["syn"]["mss"], &tcp["syn_ack_mss"]] {
            assert_eq!((&mss["is_clamped"], &mss["sent"]), (&false.into(), &mss["arrived"]), "{found}");
        }
        for name in ["udp_address", "tcp_address"] {
            assert_eq!(found[name]["is_translated"], false, "{found}");
            assert_eq!(found[name]["is_port_preserved"], true, "{found}");
        }
    }
}

fn marks_that_are_changed_or_dropped_are_told(path: &RoutedPath) {
    assert!(path.treat(&forward("iifname {up} meta l4proto udp ip ecn set not-ect")));
    let found = path.measure(ADDRESSES[0]);
    assert_kept_but(&found, "up", &["ECT(0)", "ECT(1)", "CE"].map(|mark| (mark, "bleached")));
    assert_kept_but(&found, "down", &[]);
    assert_eq!(found["ecn_readiness"]["grade"], "none", "{found}");

    assert!(path.treat(&forward("iifname {down} meta l4proto udp ip6 ecn ect1 drop\nip6 ecn ect0 ip6 ecn set ce")));
    let found = path.measure(ADDRESSES[1]);
    assert_kept_but(&found, "up", &[("ECT(0)", "remarked")]);
    assert_kept_but(&found, "down", &[("ECT(0)", "remarked"), ("ECT(1)", "dropped")]);
    // All over IPv4, which is treated otherwise.
    assert_eq!(path.measure(ADDRESSES[0])["ecn_readiness"]["grade"], "l4s");

    assert!(path.treat(&forward("iifname {up} ip dscp ef ip dscp set af11\niifname {up} ip dscp cs6 drop")));
    let found = path.measure(ADDRESSES[0]);
    assert_kept_but(&found, "up", &[("EF", "remarked"), ("CS6", "dropped")]);
    assert_kept_but(&found, "down", &[]);
    let ef = found["up"]["dscp"].as_array().unwrap().iter().find(|mark| mark["mark"] == "EF").unwrap();
    assert_eq!(ef["arrived_as"].as_object().unwrap().keys().collect::<Vec<_>>(), ["AF11"], "{ef}");
    assert_eq!(found["ecn_readiness"]["grade"], "l4s", "{found}");

    assert!(path.treat(&forward("iifname {down} ip dscp set cs0")));
    let found = path.measure(ADDRESSES[0]);
    assert_eq!(found["down"]["dscp_pattern"], "all-bleached", "{found}");
    assert_eq!(found["up"]["dscp_pattern"], "all-kept", "{found}");
}

/// A firewall that says so, by ICMP messages that kernels report as errors of the next packets.
fn rejected_marks_are_told_and_stop_nothing(path: &RoutedPath) {
    let udp = "meta l4proto udp ip dscp";
    assert!(path.treat(&forward(&format!("{udp} ef reject with icmp admin-prohibited\n{udp} cs6 reject"))));
    let report = path.report(ADDRESSES[0]);
    for direction in ["up", "down"] {
        assert_kept_but(&report["path"], direction, &[("EF", "dropped"), ("CS6", "dropped")]);
        assert_eq!((&report[direction]["transport"], &report[direction]["reason"]), (&"udp".into(), &Value::Null));
    }
}

/// One in four packets is lost besides, by chance.
fn treatment_beside_losses_is_told(path: &RoutedPath) {
    let losses = "numgen random mod 4 == 0 meta l4proto udp drop";
    assert!(path.treat(&forward(&format!("{losses}\niifname {{up}} meta l4proto udp ip ecn ect1 drop"))));
    let found = path.measure(ADDRESSES[0]);
    // UDP may not open, or every packet of a DSCP may be lost.
    if found["up"]["ecn"].is_array() && found["down"]["ecn"].is_array() {
        assert!(["dropped", "not-sure"].contains(&treatment(&found, "up", "ECT(1)")), "{found}");
        for (direction, kind) in [("up", "ecn"), ("up", "dscp"), ("down", "ecn"), ("down", "dscp")] {
            for (mark, found) in treatments(&found, direction, kind) {
                let is_dropped = (direction, mark) == ("up", "ECT(1)");
                assert!(is_dropped || ["kept", "not-sure"].contains(&found), "{direction} {mark}: {found}");
            }
        }
    }
}

fn what_is_done_to_tcp_is_told(path: &RoutedPath) {
    assert!(path.treat(&forward("tcp flags syn tcp option maxseg size set 1200")));
    let found = &path.measure(ADDRESSES[0])["tcp"];
    for mss in [&found["syn"]["mss"], &found["syn_ack_mss"]] {
        let expected = serde_json::json!({"sent": 1460, "arrived": 1200, "is_clamped": true});
        assert_eq!(*mss, expected, "{found}");
    }

    // The flags of a SYN without ECN (RFC 9293, 3.1).
    assert!(path.treat(&forward("iifname {up} tcp flags & (syn|ack) == syn @th,104,8 set 0x02")));
    let found = path.measure(ADDRESSES[1]);
    assert_eq!(
        (&found["tcp"]["syn"]["ecn_sent"], &found["tcp"]["syn"]["ecn_arrived"]),
        (&"classic".into(), &"none".into())
    );
    assert_eq!(
        (&found["tcp"]["has_ecn"], &found["ecn_readiness"]["grade"]),
        (&false.into(), &"none".into()),
        "{found}"
    );

    assert!(path.treat(&forward("iifname {up} meta l4proto tcp ip ecn set not-ect")));
    let found = path.measure(ADDRESSES[0]);
    assert_eq!(found["tcp"]["ect_seen"], serde_json::json!([true, false]), "{found}");
    assert_eq!(found["ecn_readiness"]["grade"], "none", "{found}");

    // Newer than the other rules: Linux 5.18, nftables 1.0.3.
    let sent_for = |path: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let probes = path["tcp"]["syn_probes"].as_array().unwrap().iter();
        probes.map(|probe| (text(&probe["carried"]), text(&probe["outcome"]))).collect()
    };
    let kept = sent_for(&found);
    assert!(kept.iter().all(|(_, outcome)| outcome == "kept"), "{found}");
    let mptcp = kept.iter().find(|(carried, _)| carried == "MPTCP");
    if mptcp.is_some() && path.treat(&forward("tcp flags syn reset tcp option 30")) {
        let found = path.measure(ADDRESSES[0]);
        let outcomes = sent_for(&found);
        for (carried, outcome) in outcomes {
            assert_eq!(outcome, if carried == "MPTCP" { "removed" } else { "kept" }, "{carried}: {found}");
        }
    }
    if path.treat(&forward("tcp flags syn reset tcp option timestamp")) {
        let found = &path.measure(ADDRESSES[0])["tcp"];
        assert_eq!(found["syn"]["options_removed"], serde_json::json!(["time stamps"]), "{found}");
        assert!(!found["options"].as_array().unwrap().contains(&"time stamps".into()), "{found}");
    }
}

fn translated_addresses_are_told(path: &RoutedPath) {
    let rule = "oifname two meta l4proto { tcp, udp } masquerade to :2000-2999";
    if !path.treat(&format!("chain translated {{\ntype nat hook postrouting priority 100\n{rule}\n}}")) {
        println!("not tested: this system has no address translation");
        return;
    }
    let found = path.measure(ADDRESSES[0]);
    for name in ["udp_address", "tcp_address"] {
        let address = &found[name];
        assert!(address["seen"].as_str().unwrap().starts_with("10.80.2.1:2"), "{found}");
        assert_eq!(
            (&address["is_translated"], &address["is_port_preserved"]),
            (&true.into(), &false.into()),
            "{found}"
        );
    }
    assert!(path.treat(&forward("")));
}

fn a_link_with_a_small_mtu_is_told(path: &RoutedPath) {
    // In one direction alone, and nobody says so.
    assert!(path.treat(&forward("iifname {up} meta l4proto udp meta length > 1400 drop")));
    let found = path.measure(ADDRESSES[0]);
    let (up, down) = (&found["up"]["mtu"], &found["down"]["mtu"]);
    assert_eq!((&up["passed_bytes"], &up["has_icmp"]), (&1400.into(), &false.into()), "{found}");
    assert_eq!((&down["passed_bytes"], &down["lost_bytes"]), (&1500.into(), &Value::Null), "{found}");

    let [_, down] = VethHosts::MIDDLE_INTERFACES;
    run_ip(&path.hosts.middle, &["link", "set", down, "mtu", "1400"]).unwrap();
    for (rules, has_icmp) in [("", true), ("icmp type destination-unreachable drop", false)] {
        // The router itself sends it.
        let chain = format!("chain sent {{\ntype filter hook output priority 0\n{rules}\n}}");
        assert!(path.treat(&chain));
        run_ip(&path.hosts.left, &["route", "flush", "cache"]).unwrap();
        let found = path.measure(ADDRESSES[0]);
        let up = &found["up"]["mtu"];
        assert_eq!((&up["passed_bytes"], &up["has_icmp"]), (&1400.into(), &has_icmp.into()), "{rules}: {found}");
    }
}

/// Where this host's connections request no ECN, one SYN does: by DCTCP, whose congestion control everybody may use here.
#[test]
fn a_syn_requests_ecn_by_a_congestion_control_that_needs_it() {
    in_namespaces("path::a_syn_requests_ecn_by_a_congestion_control_that_needs_it", || {
        let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
        if !available.split_whitespace().any(|name| name == "dctcp") {
            println!("not tested: this kernel has no dctcp");
            return;
        }
        let path = RoutedPath::new();
        let prepare = || {
            write_setting("ipv4/tcp_ecn", "2");
            write_setting("ipv4/tcp_allowed_congestion_control", "reno dctcp");
        };
        path.hosts.left.run(prepare).unwrap();
        let outcome = || {
            let found = path.measure(ADDRESSES[0]);
            assert_eq!(found["tcp"]["syn"]["ecn_sent"], "none", "{found}");
            let probes = found["tcp"]["syn_probes"].as_array().unwrap();
            probes.iter().find(|probe| probe["carried"] == "ECN").map(|probe| probe["outcome"].clone())
        };
        assert_eq!(outcome(), Some("kept".into()));
        if path.treat(&forward("iifname {up} tcp flags == syn | ecn | cwr tcp flags set syn")) {
            assert_eq!(outcome(), Some("removed".into()));
        }
    });
}
