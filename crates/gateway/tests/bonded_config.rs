//! What a configuration file may say of the bonded plane.

use kumade_gateway::config::Plane;
use kumade_gateway::{ConfigError, GatewayConfig};
use kumade_multipath::{PathPolicy, ShareUnit};
use kumade_net::ScopedAddress;
use kumade_overlay_io::OuterDscp;

const KEY: &str = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcdef";

const VALID: &str = r#"[gateway]
name = "left"
plane = "bonded"

[bonded]
key = "gateway.key"
choice = "ratio"
addresses = ["10.8.0.1/24"]

[[path]]
name = "one"
interface = "path1"
weight = 16

[[path]]
name = "two"
interface = "path2"
weight = 3
rate = "1500kbit"

[[remote]]
name = "right"
networks = ["10.2.0.0/24"]
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcdef"
addresses = ["", "[2001:db8::2]:9000"]
"#;

fn read(text: &str) -> Result<GatewayConfig, ConfigError> {
    let interfaces = ["path1", "path2"].map(String::from);
    GatewayConfig::from_toml(text, "site.toml", &interfaces)
}

#[test]
fn a_valid_file_becomes_what_it_says() {
    let config = read(VALID).unwrap();
    let Plane::Bonded(bonded) = &config.plane else { panic!("another plane") };
    assert_eq!(bonded.path_policy, PathPolicy::Ratio { shares: vec![16, 3], unit: ShareUnit::Packets });
    assert_eq!((bonded.port, bonded.mtu, bonded.device.as_str()), (7273, None, "kumade0"));
    assert_eq!(bonded.threads, 1);
    assert_eq!(bonded.peers[0].key.to_string(), KEY);
    assert_eq!(bonded.peers[0].addresses, [None, Some("[2001:db8::2]:9000".parse().unwrap())]);
    let default_port = read(&VALID.replace("[2001:db8::2]:9000", "192.0.2.2")).unwrap();
    let Plane::Bonded(bonded) = &default_port.plane else { panic!("another plane") };
    assert_eq!(bonded.peers[0].addresses[1], Some("192.0.2.2:7273".parse().unwrap()));
    assert_eq!(bonded.dscp, OuterDscp::Zero);
    for (dscp, expected) in [
        ("\"inherit\"", OuterDscp::Inherit),
        ("\"ef\"", OuterDscp::Fixed("46".parse().unwrap())),
        ("46", OuterDscp::Fixed("46".parse().unwrap())),
    ] {
        let given = read(&VALID.replace("choice = \"ratio\"", &format!("dscp = {dscp}"))).unwrap();
        let Plane::Bonded(bonded) = &given.plane else { panic!("another plane") };
        assert_eq!(bonded.dscp, expected);
    }
    let of_a_link = read(&VALID.replace("[2001:db8::2]:9000", "fe80::2%lo")).unwrap();
    let Plane::Bonded(bonded) = &of_a_link.plane else { panic!("another plane") };
    let address: ScopedAddress = "fe80::2%lo".parse().unwrap();
    assert_eq!(bonded.peers[0].addresses[1], Some(address.with_port(7273)));
}

#[test]
fn faults_are_told_with_the_line_and_what_to_try() {
    for (from, to, line, told) in [
        ("[bonded]\nkey = \"gateway.key\"\nchoice = \"ratio\"\naddresses = [\"10.8.0.1/24\"]\n", "", 2, "no [bonded]"),
        ("choice = \"ratio\"", "choice = \"fastest\"", 7, "fastest"),
        ("choice = \"ratio\"", "mtu = 100", 7, "from 1280 to 9000"),
        ("choice = \"ratio\"", "port = 0", 7, "from 1 to 65535"),
        ("choice = \"ratio\"", "threads = 0", 7, "1 to 8 threads"),
        ("choice = \"ratio\"", "threads = 9", 7, "1 to 8 threads"),
        ("choice = \"ratio\"", "port = 65535\nthreads = 2", 8, "2 threads need as many ports from 65535 on"),
        ("choice = \"ratio\"", "dscp = 64", 7, "a number from 0 to 63, or a name"),
        ("choice = \"ratio\"", "dscp = \"copy\"", 7, "write `inherit`"),
        ("choice = \"ratio\"", "unordered-dscps = [46, 64]", 7, "from 0 to 63"),
        ("10.8.0.1/24", "10.8.0.1.2", 8, "10.8.0.1.2"),
        ("weight = 3", "gateways = [\"192.0.2.1\"]", 25, "2001:db8::2 is not reached by path `two`"),
        ("public-key = \"85d3", "public-key = \"x", 24, "64 hexadecimal digits"),
        (&format!("public-key = \"{KEY}\"\n"), "", 22, "kumade key public"),
        ("[2001:db8::2]:9000", "example.org", 25, "example.org"),
        ("[2001:db8::2]:9000", "[fe80::2%absent0]:9000", 25, "no interface `absent0`"),
        ("addresses = [\"\", ", "addresses = [\"\", \"\", ", 25, "more addresses than paths"),
        ("plane = \"bonded\"", "", 6, "plane = \"bonded\""),
        ("interface = \"path2\"", "interface = \"path9\"", 17, "no interface `path9`: there are path1, path2"),
        ("interface = \"path2\"", "interface = \"path1\"", 17, "`path1` is given twice"),
        ("[\"10.2.0.0/24\"]", "[\"10.2.0.0/24\", \"10.2.0.128/25\"]", 23, "overlaps 10.2.0.0/24"),
        ("[\"10.2.0.0/24\"]", "[\"10.2.0.1/24\"]", 23, "write 10.2.0.0/24"),
    ] {
        assert!(VALID.contains(from), "{from}");
        // Only the direct plane needs to know where local hosts are.
        let local = if from.starts_with("plane") {
            "\n[[local]]\ninterface = \"path1\"\nnetworks = [\"10.1.0.0/24\"]\n"
        } else {
            ""
        };
        let error = read(&(VALID.replacen(from, to, 1) + local)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("site.toml:{line}:")) && error.contains(told), "{from}: {error}");
    }
}

#[test]
fn two_remote_gateways_share_no_key_no_network_and_the_ip_version_of_a_path() {
    let second = |key: &str, network: &str, address: &str| {
        let networks = format!("networks = [\"{network}\"]\npublic-key = \"{key}\"\n");
        format!("{VALID}\n[[remote]]\nname = \"third\"\n{networks}addresses = [\"\", \"{address}\"]\n")
    };
    let other = KEY.replace("85d3", "95d3");
    assert!(read(&second(&other, "10.3.0.0/24", "2001:db8::3")).is_ok());
    for (text, line, told) in [
        (second(KEY, "10.3.0.0/24", "2001:db8::3"), 30, "is given twice as public-key"),
        (second(&other, "10.2.0.0/16", "2001:db8::3"), 29, "10.2.0.0/16 overlaps 10.2.0.0/24"),
        (second(&other, "10.3.0.0/24", "192.0.2.3"), 31, "192.0.2.3 is of another IP version"),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("site.toml:{line}:")) && error.contains(told), "{error}");
    }
}
