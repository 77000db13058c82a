//! Whether a link has queues of its own for some DSCPs: classes of the kernel's HTB on a router, through the program as users run it.

use crate::path::{ADDRESSES, RoutedPath};
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{VethHosts, in_namespaces};
use serde_json::Value;
use std::path::Path;

/// Gives the router's link to the server a rate, and its packets the classes of these commands; false where this system can't.
fn shape(router: &Namespace, commands: &[&str]) -> bool {
    let tc = ["/usr/sbin/tc", "/sbin/tc"].into_iter().find(|path| Path::new(path).exists()).unwrap_or("tc");
    let device = VethHosts::MIDDLE_INTERFACES[1];
    let run = |command: &str| {
        let arguments = command.replace("{device}", device);
        router.command(tc).args(arguments.split(' ')).status().is_ok_and(|status| status.success())
    };
    // There is none before the first.
    let _ = router.command(tc).args(["qdisc", "del", "dev", device, "root"]).output();
    commands.iter().all(|command| run(command))
}

fn measure(path: &RoutedPath, address: &str) -> Value {
    let mut command = path.hosts.left.command(assert_cmd::cargo::cargo_bin("kumade"));
    command.args(["measure", address, "--queues", "--json", "--direction", "up"]);
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["path"].is_object(), "{document} {}", String::from_utf8_lossy(&output.stderr));
    document
}

const ROOT: &str = "qdisc add dev {device} root handle 1: htb default 20";
const LINK: &str =
    "class add dev {device} parent 1: classid 1:1 htb rate 20mbit ceil 20mbit burst 1600 cburst 1600 quantum 1514";
const BEST_EFFORT: &str = "class add dev {device} parent 1:1 classid 1:20 htb rate 10mbit ceil 20mbit prio 1 burst 1600 cburst 1600 quantum 1514";
const BEST_EFFORT_ALONE: &str = "class add dev {device} parent 1:1 classid 1:20 htb rate 20mbit ceil 20mbit prio 1 burst 1600 cburst 1600 quantum 1514";
const BEST_EFFORT_QUEUE: &str = "qdisc add dev {device} parent 1:20 handle 20: pfifo limit 1000";

#[test]
fn classes_of_the_kernel_by_dscp_are_told_from_one_queue() {
    in_namespaces("queue_classes::classes_of_the_kernel_by_dscp_are_told_from_one_queue", || {
        let path = RoutedPath::new();
        if !shape(&path.hosts.middle, &[ROOT, LINK, BEST_EFFORT_ALONE, BEST_EFFORT_QUEUE]) {
            println!("not tested: this system has no tc, or no HTB");
            return;
        }
        let found = &measure(&path, ADDRESSES[0])["path"]["up"]["queue_classes"];
        println!("one queue: {found}");
        assert_ne!(found["queues"], "several", "{found}");
        let class = |minor: &str, rate: &str, prio: u32, burst: u32| {
            format!(
                "class add dev {{device}} parent 1:1 classid 1:{minor} htb rate {rate} ceil 20mbit prio {prio} burst {burst} cburst 1600 \
                 quantum 1514"
            )
        };
        let filter = |octet: &str, minor: &str| {
            format!("filter add dev {{device}} parent 1: protocol ip u32 match ip tos {octet} 0xfc flowid 1:{minor}")
        };
        let (first, last) = (class("10", "8mbit", 0, 1600), class("30", "8kbit", 2, 100));
        let (expedited, lower) = (filter("0xb8", "10"), filter("0x04", "30"));
        let classes = [ROOT, LINK, BEST_EFFORT, BEST_EFFORT_QUEUE, &first, &last, &expedited, &lower];
        assert!(shape(&path.hosts.middle, &classes));
        let found = &measure(&path, ADDRESSES[0])["path"]["up"]["queue_classes"];
        println!("classes: {found}");
        for class in found["classes"].as_array().into_iter().flatten() {
            // A busy machine holds packets up, which tells less and nothing else.
            let expected = match class["mark"].as_str().unwrap() {
                "EF" => ["waits-less", "not-sure"],
                "LE" => ["waits-longer", "not-sure"],
                _ => ["as-best-effort", "not-sure"],
            };
            assert!(expected.contains(&class["queue"].as_str().unwrap()), "{class}");
        }
    });
}
