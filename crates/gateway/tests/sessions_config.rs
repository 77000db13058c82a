//! What a configuration file may say of NAT sessions.

use kumade_gateway::direct::DirectPlan;
use kumade_gateway::{ConfigError, GatewayConfig};
use kumade_units::Span;

const KEY: &str = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcdef";

const VALID: &str = r#"[gateway]
name = "left"

[sessions]
key = "gateway.key"
idle = "90s"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]

[[path]]
name = "one"
interface = "path1"

[[path]]
name = "two"
interface = "path2"

[[remote]]
name = "right"
networks = ["10.2.0.0/24"]
sessions = true
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcdef"
addresses = ["192.0.2.2", "[2001:db8::2]:9000"]

[[translation]]
network = "10.1.0.0/24"
alias = "198.51.100.1"
path = "two"
"#;

fn read(text: &str) -> Result<GatewayConfig, ConfigError> {
    let interfaces = ["lan", "path1", "path2"].map(String::from);
    GatewayConfig::from_toml(text, "site.toml", &interfaces)
}

#[test]
fn a_valid_file_becomes_what_it_says() {
    let config = read(VALID).unwrap();
    let sessions = config.sessions.as_ref().unwrap();
    assert_eq!((sessions.port, sessions.limits.idle_timeout), (7273, Span::from_secs(90)));
    assert_eq!(sessions.limits.max_sessions, 10_000);
    let peer = sessions.peers[0].as_ref().unwrap();
    assert_eq!(peer.key.to_string(), KEY);
    assert_eq!(peer.addresses, ["192.0.2.2:7273", "[2001:db8::2]:9000"].map(|text| text.parse().ok()));
    assert!(config.translations[0].is_shared());
    // Aliases are given to single flows only.
    let plan = DirectPlan::new(&config).to_string();
    assert!(plan.contains("map @out4-two") && !plan.contains("ip saddr set 198.51.100.1"), "{plan}");
}

#[test]
fn faults_are_told_with_the_line_and_what_to_try() {
    let again = "\n[[remote]]\nname = \"third\"\nnetworks = [\"10.3.0.0/24\"]\n";
    let same_key = format!("{again}sessions = true\npublic-key = \"{KEY}\"\n");
    for (from, to, line, told) in [
        ("[sessions]\nkey = \"gateway.key\"\nidle = \"90s\"\n", "", 20, "no [sessions]"),
        ("sessions = true\n", "", 5, "sessions = true"),
        ("idle = \"90s\"", "idle = \"90\"", 6, "90"),
        ("idle = \"90s\"", "idle = \"2s\"", 6, "at least 3 s"),
        ("idle = \"90s\"", "max-sessions = 0", 6, "1 to 65536"),
        ("idle = \"90s\"", "port = 0", 6, "from 1 to 65535"),
        ("networks = [\"10.1.0.0/24\"]\n", "", 9, "`networks`"),
        (&format!("public-key = \"{KEY}\"\n"), "", 21, "kumade key public"),
        ("public-key = \"85d3", "public-key = \"x", 24, "64 hexadecimal digits"),
        ("2001:db8::2]:9000\"", "2001:db8::2]:9000\", \"\"", 25, "more addresses than paths"),
        ("name = \"left\"", "name = \"left\"\nplane = \"bonded\"", 6, "leave [sessions] out"),
        // A remote without sessions gets the same addresses for all packets.
        ("path = \"two\"\n", &format!("path = \"two\"\n{again}"), 29, "differ in size"),
        ("path = \"two\"\n", &format!("path = \"two\"\n{same_key}"), 36, "another remote has this key"),
    ] {
        assert!(VALID.contains(from), "{from}");
        let error = read(&VALID.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("site.toml:{line}:")) && error.contains(told), "{to}: {error}");
    }
}
