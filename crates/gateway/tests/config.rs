//! What a configuration file may say, and how faults in it are told.

use kumade_gateway::config::GatewaySide;
use kumade_gateway::direct::DirectPlan;
use kumade_gateway::{ConfigError, GatewayConfig};
use proptest::prelude::*;

const VALID: &str = r#"[gateway]
name = "left"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24", "fd01::/64"]

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2", "fd09:1::2"]
weight = 32

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2"]
weight = 6
rate = "8mbit"

[[remote]]
name = "right"
networks = ["10.2.0.0/24"]

[[remote]]
name = "rest"
networks = ["0.0.0.0/0", "::/0"]
paths = ["one"]

[[translation]]
network = "10.1.0.0/24"
alias = "192.0.2.0/24"
path = "one"

[[translation]]
network = "10.2.0.7"
alias = "198.51.100.7"
path = "two"
"#;

fn interfaces() -> Vec<String> {
    ["lo", "lan", "path1", "path2"].map(String::from).to_vec()
}

fn read(text: &str) -> Result<GatewayConfig, ConfigError> {
    GatewayConfig::from_toml(text, "site.toml", &interfaces())
}

#[test]
fn a_valid_file_becomes_what_it_says() {
    let config = read(VALID).unwrap();
    assert_eq!(config.remotes[0].ratio.to_string(), "16:3");
    assert_eq!(config.remotes[1].paths, [0]);
    assert_eq!(config.paths[1].rate.map(|rate| rate.bits_per_second()), Some(8_000_000));
    let sides: Vec<_> = config.translations.iter().map(|one| (one.side, one.network.to_string(), one.path)).collect();
    let expected = [
        (GatewaySide::Local, "10.1.0.0/24".to_owned(), Some(0)),
        (GatewaySide::Remote, "10.2.0.7/32".to_owned(), Some(1)),
    ];
    assert_eq!(sides, expected);
}

#[test]
fn the_plan_divides_specific_networks_first_and_nothing_between_local_ones() {
    let plan = DirectPlan::new(&read(VALID).unwrap());
    let text = plan.to_string();
    let expected = r#"	chain arriving {
		type filter hook prerouting priority -300; policy accept;
		iifname "path1" goto restore
		iifname "path2" goto restore
		iifname "lan" ip saddr 10.1.0.0/24 ip daddr 10.2.0.0/24 goto divide-right
		iifname "lan" ip daddr 10.1.0.0/24 accept
		iifname "lan" ip saddr 10.1.0.0/24 meta nfproto ipv4 fib daddr type unicast goto divide-rest
		iifname "lan" ip6 daddr fd01::/64 accept
		iifname "lan" ip6 saddr fd01::/64 meta nfproto ipv6 fib daddr type unicast goto divide-rest
	}
	chain leaving {
		type filter hook postrouting priority 300; policy accept;
		meta mark 27393 ip saddr 10.1.0.0/24 ip saddr set ip saddr & 0.0.0.255 | 192.0.2.0
		meta mark 27394 ip daddr 10.2.0.7/32 ip daddr set 198.51.100.7
	}
}"#;
    assert!(text.ends_with(expected), "{text}");
    let times = |path: &str| text.matches(&format!(" counter name \"path-{path}\"\n")).count();
    assert_eq!([times("one"), times("two")], [2, 1], "each remote site's packets are counted: {text}");
    assert!(text.contains("ip link set dev lan gro_max_size 2000 gro_ipv4_max_size 2000"), "{text}");
    assert_eq!(text.matches("ip -6 rule").count(), 1, "only path `one` leads to IPv6 networks: {text}");
}

/// Each line: what is replaced by what, and the line and the words of the fault.
#[test]
fn faults_are_told_with_the_line_and_what_to_try() {
    let refused = |from: &str, to: &str, line: usize, words: &str| {
        assert!(VALID.contains(from), "{from}");
        let text = VALID.replacen(from, to, 1);
        let error = read(&text).expect_err(to);
        let told = error.to_string();
        assert!(told.starts_with(&format!("site.toml:{line}: ")) && told.contains(words), "{to}: {told}");
    };
    refused("interface = \"lan\"", "interface = \"lan9\"", 5, "no interface `lan9`: there are lo, lan, path1, path2");
    refused("interface = \"path2\"", "interface = \"\"", 16, "no interface ``");
    refused("name = \"left\"", "name = \"a b\"", 2, "letters, digits");
    refused("name = \"left\"", "nmae = \"left\"", 2, "unknown field `nmae`");
    refused("name = \"left\"", "name = \"left\"\nplane = \"bent\"", 3, "unknown variant `bent`");
    refused("weight = 32", "wieght = 32", 12, "unknown field `wieght`");
    refused("weight = 32", "weight = -1", 12, "invalid value");
    refused("weight = 32", "weight = 1001", 22, "more than 1000: round it");
    refused("weight = 32", "weight = 0", 26, "no path with a weight above 0");
    refused("rate = \"8mbit\"", "rate = \"fast\"", 19, "`fast` is not a rate");
    refused("rate = \"8mbit\"", "rate = \"0\"", 19, "weight = 0");
    refused("name = \"two\"", "name = \"one\"", 15, "`one` is given twice");
    refused("\"10.9.2.2\"", "\"10.9.2.2\", \"10.9.2.3\"", 17, "second gateway of its IP version");
    refused("\"10.9.2.2\"", "\"gw\"", 17, "`gw` is no IP address");
    refused("\"10.9.2.2\"", "\"127.0.0.1\"", 17, "no address of a router");
    refused("\"10.9.2.2\"", "\"fe80::2%lo\"", 17, "is not at the path's interface, path2");
    refused("\"10.9.2.2\"", "\"fe80::2%absent0\"", 17, "no interface `absent0`");
    refused("[\"10.9.2.2\"]", "[\"fd09:2::2\"]", 22, "path `two` has no IPv4 gateway");
    refused("10.2.0.0/24\"]", "10.1.0.128/25\"]", 23, "10.1.0.128/25 overlaps 10.1.0.0/24");
    refused("fd01::/64", "::/0", 27, "::/0 overlaps ::/0");
    refused("10.2.0.0/24\"]", "10.2.0.1/24\"]", 23, "names one host of a network: write 10.2.0.0/24");
    refused("10.2.0.0/24\"]", "net\"]", 23, "`net` is no network");
    refused("[\"10.2.0.0/24\"]", "[]", 22, "has no networks");
    refused("name = \"rest\"", "name = \"right\"", 26, "`right` is given twice");
    refused("paths = [\"one\"]", "paths = [\"three\"]", 28, "no path is called `three`: there are one, two");
    refused("paths = [\"one\"]", "paths = [\"one\", \"one\"]", 28, "`one` is given twice");
    refused("alias = \"192.0.2.0/24\"", "alias = \"192.0.2.0/25\"", 32, "differ in size");
    refused("alias = \"192.0.2.0/24\"", "alias = \"10.2.0.0/24\"", 32, "overlaps the network 10.2.0.0/24");
    refused("alias = \"198.51.100.7\"", "alias = \"192.0.2.7\"", 37, "give each network its own");
    refused("network = \"10.2.0.7\"", "network = \"10.3.0.7\"", 36, "10.3.0.7/32 is in no network");
    refused("[[remote]]\nname = \"rest\"", "[[remote", 25, "");
    let two_aliases = VALID.replace("10.2.0.7", "10.1.0.7").replace("path = \"two\"", "path = \"one\"");
    assert!(
        read(&two_aliases).unwrap_err().to_string().contains("site.toml:37: 10.1.0.0/24 has an alias on this path")
    );
    let elsewhere = VALID
        .replace("paths = [\"one\"]", "paths = [\"one\"]\n")
        .replace("\"10.2.0.0/24\"]", "\"10.2.0.0/24\"]\npaths = [\"one\"]");
    assert!(read(&elsewhere).unwrap_err().to_string().contains("does not lead to remote `right`"));
}

#[test]
fn paths_are_measured_to_where_the_file_says() {
    let with = |weights: &str, right: &str, more: &str| {
        let text = VALID.replace("name = \"left\"", &format!("name = \"left\"\n{weights}"));
        read(&(text.replace("[\"10.2.0.0/24\"]", &format!("[\"10.2.0.0/24\"]\n{right}")) + more))
    };
    let measured = "weights = \"measured\"";
    let config =
        with(measured, "measure = [\"10.2.0.1\", \"10.2.0.2:99\"]", "[measure]\nanswer = true\nport = 98\n").unwrap();
    assert_eq!(
        config.remotes[0].measurement_addresses,
        ["10.2.0.1:98".parse().unwrap(), "10.2.0.2:99".parse().unwrap()]
    );
    assert!(config.remotes[1].measurement_addresses.is_empty());
    assert!(config.measurement.is_answering && config.measurement.key_file.is_none());
    assert_eq!(read(VALID).unwrap().measurement.port, 7272);
    for (weights, right, more, words) in [
        (measured, "", "", "site.toml:2: nothing can be measured: give a [[remote]] the list `measure`"),
        (measured, "measure = [\"10.2.0.1\"]", "", "site.toml:25: remote `right` has 2 paths: list as many addresses"),
        (measured, "measure = [\"10.2.0.1\", \"\"]", "", "site.toml:25: each path is measured, or none"),
        (measured, "measure = [\"10.2.0.1\", \"b\"]", "", "site.toml:25: `b` is no address"),
        (measured, "measure = [\"10.2.0.1\", \"fd02::1\"]", "", "has no network of the IP version of fd02::1"),
        ("", "measure = [\"10.2.0.1\", \"10.2.0.2\"]", "", "set weights = \"measured\" in [gateway]"),
        ("", "", "[measure]\nport = 0\n", "site.toml:42: the other gateway has to know the port"),
        ("weights = \"best\"", "", "", "site.toml:3: unknown variant `best`"),
    ] {
        let told = with(weights, right, more).unwrap_err().to_string();
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn sections_that_are_missing_are_named() {
    for (section, words) in [("local", "no [[local]]"), ("path", "no [[path]]"), ("remote", "no [[remote]]")] {
        let parts = VALID.split("\n\n").filter(|part| {
            let unwanted = |name: &str| part.starts_with(&format!("[[{name}]]"));
            !(unwanted(section) || unwanted("translation"))
        });
        let error = read(&parts.collect::<Vec<_>>().join("\n\n")).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(read("").unwrap_err().to_string().contains("missing field `gateway`"));
}

#[test]
fn a_gateway_on_one_cable_needs_to_know_its_hosts() {
    let same = VALID.replace("interface = \"path1\"", "interface = \"lan\"");
    read(&same).unwrap();
    let unknown = same.replace("networks = [\"10.1.0.0/24\", \"fd01::/64\"]", "");
    let error = read(&unknown).unwrap_err().to_string();
    assert!(error.contains("site.toml:5: lan is also a path's interface"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// A file that is damaged in one place is refused or means something; nothing panics, and a plan can be made of it.
    #[test]
    fn a_damaged_file_is_refused_or_valid(place in 0..VALID.len(), length in 0usize..20, by in ".{0,6}") {
        let end = (place + length).min(VALID.len());
        let text = [&VALID[..place], &by, &VALID[end..]].concat();
        match read(&text) {
            Ok(config) => prop_assert!(!DirectPlan::new(&config).to_string().is_empty()),
            Err(error) => prop_assert!(error.line.is_none_or(|line| line <= text.lines().count() + 1)),
        }
    }
}
