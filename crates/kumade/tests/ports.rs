//! Kinds of address translation, ports that pass, and idle flows that are forgotten: with a router of the kernel that does it (nftables,
//! connection tracking), and with the program as users run it.

use crate::path::{ADDRESSES, RoutedPath, forward, write_setting};
use kumade_net::{HostClaim, HostClaimError};
use kumade_netns_testbed::in_namespaces;
use serde_json::Value;
use std::cell::RefCell;
use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

/// Translation of what goes to the server's network.
fn translate(rules: &str) -> String {
    format!("chain translated {{\ntype nat hook postrouting priority 100\n{rules}\n}}")
}

/// Of UDP and TCP.
fn mapping(path: &Value) -> [&Value; 2] {
    ["udp_address", "tcp_address"].map(|name| &path[name]["mapping"])
}

fn is_said(path: &Value, part: &str) -> bool {
    path["not_known"].as_array().unwrap().iter().any(|text| text.as_str().unwrap().contains(part))
}

#[test]
fn kinds_of_address_translation_are_told() {
    in_namespaces("ports::kinds_of_address_translation_are_told", || {
        let path = RoutedPath::with_server(&["--second-address", "10.80.2.3"]);
        let measure = || path.report_with(ADDRESSES[0], &["--path"])["path"].take();
        let found = measure();
        assert_eq!(
            (mapping(&found), &found["udp_address"]["filtering"]),
            ([&Value::Null; 2], &"endpoint-independent".into())
        );
        let (tcp_udp, any_port) = ("oifname two meta l4proto { tcp, udp }", "masquerade to :2000-2999");
        if !path.treat(&translate(&format!("{tcp_udp} masquerade"))) {
            println!("not tested: this system has no nft, or no address translation");
            return;
        }
        for (rules, expected) in [
            (format!("{tcp_udp} masquerade"), "endpoint-independent"),
            (format!("{tcp_udp} {any_port}"), "endpoint-independent"),
            (
                format!("{tcp_udp} ip daddr 10.80.2.3 masquerade to :3000-3999\n{tcp_udp} {any_port}"),
                "address-dependent",
            ),
            (format!("{tcp_udp} masquerade fully-random"), "address-and-port-dependent"),
        ] {
            assert!(path.treat(&translate(&rules)));
            let found = measure();
            assert_eq!(mapping(&found), [&Value::from(expected); 2], "{rules}: {found}");
            assert_eq!(found["udp_address"]["filtering"], "address-and-port-dependent", "{rules}: {found}");
        }
        // A firewall that translates nothing, and lets in what is related to what went out.
        assert!(path.treat(&forward("iifname two ct state new drop")));
        let found = measure();
        assert_eq!(
            (mapping(&found)[0], &found["udp_address"]["filtering"]),
            (&Value::Null, &"address-and-port-dependent".into())
        );
        // One that lets the server's own port pass alone.
        let others = "iifname one meta l4proto { tcp, udp } th dport != 7272 drop";
        assert!(path.treat(&format!("{}\n{}", translate(&format!("{tcp_udp} masquerade")), forward(others))));
        let found = measure();
        assert_eq!(mapping(&found), [&Value::Null; 2], "{found}");
        assert!(is_said(&found, "UDP: the kind of address translation: no packet"), "{found}");
        assert!(is_said(&found, "TCP: the kind of address translation: no connection"), "{found}");
    });
}

#[test]
fn a_second_port_alone_tells_what_it_can() {
    in_namespaces("ports::a_second_port_alone_tells_what_it_can", || {
        let path = RoutedPath::with_server(&["--ports", "6000-6100"]);
        if !path.treat(&translate("oifname two meta l4proto { tcp, udp } masquerade")) {
            println!("not tested: this system has no nft, or no address translation");
            return;
        }
        // The configured ports are those that firewalls let pass.
        let others = "iifname one meta l4proto { tcp, udp } th dport != { 7272, 6000-6100 } drop";
        assert!(path.treat(&format!("{}\n{}", translate("oifname two masquerade"), forward(others))));
        let found = path.report_with(ADDRESSES[0], &["--path"])["path"].take();
        assert_eq!(mapping(&found), [&Value::from("not-address-and-port-dependent"); 2], "{found}");
        assert!(is_said(&found, "kumade serve --second-address"), "{found}");
    });
}

/// Of a port, by protocol.
fn outcome<'r>(report: &'r Value, protocol: &str, port: u16) -> &'r str {
    let ports = report["path"]["ports"]["ports"].as_array().unwrap_or_else(|| panic!("{report}"));
    let found = ports.iter().find(|found| found["protocol"] == protocol && found["port"] == port).unwrap();
    found["outcome"].as_str().unwrap()
}

#[test]
fn what_becomes_of_ports_is_told() {
    in_namespaces("ports::what_becomes_of_ports_is_told", || {
        let path = RoutedPath::with_server(&["--ports", "5000-5010"]);
        let list = ["--ports", "5000-5006,9000"];
        let redirect = "chain redirected {\ntype nat hook prerouting priority -100\niifname one tcp dport 5005 redirect to :9999\n}";
        let rules = "iifname one udp dport 5001 drop\niifname one tcp dport 5002 reject with tcp reset\n\
                     iifname one udp dport 5003 reject with icmp admin-prohibited\niifname two udp sport 5004 drop\n\
                     iifname one tcp dport 5001 drop\niifname one tcp dport 5003 reject with icmp admin-prohibited";
        if !path.treat(&format!("{redirect}\n{}", forward(rules))) {
            println!("not tested: this system has no nft, or no address translation");
            return;
        }
        let portal = path.hosts.middle.run(|| TcpListener::bind("0.0.0.0:9999").unwrap()).unwrap();
        thread::spawn(move || {
            for stream in portal.incoming() {
                // Whoever connects may have gone.
                let _ = stream.unwrap().write_all(b"HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n");
            }
        });
        let _taken = path.hosts.right.run(|| TcpListener::bind("0.0.0.0:5006").unwrap()).unwrap();
        let report = path.report_with(ADDRESSES[0], &list);
        for (protocol, port, expected) in [
            ("udp", 5000, "passes"),
            ("tcp", 5000, "passes"),
            ("udp", 5001, "no-answer"),
            ("tcp", 5001, "no-answer"),
            ("udp", 5002, "passes"),
            ("tcp", 5002, "refused"),
            ("udp", 5003, "refused"),
            ("tcp", 5003, "refused"),
            ("udp", 5004, "up-only"),
            ("tcp", 5004, "passes"),
            ("tcp", 5005, "other-answer"),
            ("udp", 5006, "passes"),
            ("tcp", 5006, "in-use"),
            ("udp", 9000, "not-allowed"),
            ("tcp", 9000, "not-allowed"),
        ] {
            let found = outcome(&report, protocol, port);
            // On a busy machine, answers may be late.
            assert!([expected, "not-sure"].contains(&found), "{protocol} {port}: {found} in {report}");
        }
        let ports = report["path"]["ports"]["ports"].as_array().unwrap();
        let refused = ports.iter().find(|found| found["protocol"] == "udp" && found["port"] == 5003).unwrap();
        assert_eq!(refused["detail"], "administratively prohibited by 10.80.1.1", "{report}");
        assert_eq!((&report["up"]["transport"], &report["path"]["ports"]["failure"]), (&"udp".into(), &Value::Null));
    });
}

#[test]
fn a_server_that_allows_no_ports_opens_none() {
    in_namespaces("ports::a_server_that_allows_no_ports_opens_none", || {
        let path = RoutedPath::with_server(&[]);
        let report = path.report_with(ADDRESSES[1], &["--ports", "443,7272"]);
        for port in [443, 7272] {
            assert_eq!([outcome(&report, "udp", port), outcome(&report, "tcp", port)], ["not-allowed"; 2], "{report}");
        }
    });
}

#[test]
fn idle_flows_are_forgotten_after_the_time_that_is_reported() {
    in_namespaces("ports::idle_flows_are_forgotten_after_the_time_that_is_reported", || {
        let path = RoutedPath::with_server(&[]);
        // What comes from the server passes where it belongs to a flow that is known.
        if !path.treat(&forward("iifname two ct state new drop\niifname two ct state invalid drop")) {
            println!("not tested: this system has no nft, or tracks no connections");
            return;
        }
        let timeouts = [("udp_timeout", 3), ("udp_timeout_stream", 5), ("tcp_timeout_established", 4)];
        path.hosts
            .middle
            .run(|| {
                for (name, seconds) in timeouts {
                    write_setting(&format!("netfilter/nf_conntrack_{name}"), &seconds.to_string());
                }
            })
            .unwrap();
        let report = std::thread::scope(|scope| {
            let measuring = scope.spawn(|| path.report_with(ADDRESSES[0], &["--idle-timeouts", "8s"]));
            let claim = || path.hosts.left.run(HostClaim::try_new).unwrap();
            // Whether one of these becomes true before the measurement has ended.
            let comes = |is_sought: &dyn Fn(Result<HostClaim, HostClaimError>) -> bool| {
                let mut looks = std::iter::from_fn(|| (!measuring.is_finished()).then(&claim));
                looks.any(|claim| {
                    let is_found = is_sought(claim);
                    thread::sleep(Duration::from_millis(20));
                    is_found
                })
            };
            assert!(comes(&|claim| matches!(claim, Err(HostClaimError::Held))));
            let kept = RefCell::new(None);
            let keep = |claim: Result<HostClaim, HostClaimError>| {
                kept.replace(claim.ok());
                kept.borrow().is_some()
            };
            assert!(comes(&keep), "others can't measure at this host while flows are idle");
            // The next round waits for it, for longer than a server hears nothing from a client (10 s), which loses nothing by that.
            thread::sleep(Duration::from_secs(23));
            drop(kept.take());
            measuring.join().unwrap()
        });
        let found = &report["path"]["idle_timeouts"];
        assert_eq!(found["failure"], Value::Null, "{report}");
        for (kind, (_, truth)) in ["udp", "udp_stream", "tcp"].iter().zip(timeouts) {
            let (found, truth) = (&found[kind], f64::from(truth));
            // The kernel forgets a flow a moment after its time: it counts in ticks.
            const TICK: f64 = 0.02;
            let low = found["longer_than_seconds"].as_f64().unwrap_or(0.0);
            let high = found["at_most_seconds"].as_f64().unwrap_or(f64::INFINITY);
            assert!(low <= truth + TICK && truth <= high, "{kind}: {found}");
        }
        assert_eq!(found["udp"]["resumes_up"], true, "{found}");
    });
}
