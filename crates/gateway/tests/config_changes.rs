//! What differs between the configuration of a running gateway and another one.

use kumade_gateway::GatewayConfig;
use proptest::prelude::*;

const KEYS: [&str; 3] = [
    "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f",
    "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd5f",
    "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd4f",
];
const INTERFACES: [&str; 5] = ["lan", "path0", "path1", "path2", "path3"];

fn read(text: &str) -> GatewayConfig {
    GatewayConfig::from_toml(text, "site.toml", &INTERFACES.map(String::from)).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn changes(before: &str, after: &str) -> Vec<String> {
    read(before).changes_to(&read(after)).unwrap()
}

fn refusal(before: &str, after: &str) -> String {
    read(before).changes_to(&read(after)).unwrap_err().to_string()
}

/// Parts of a file; lists stand in their order.
#[derive(Debug, Clone)]
struct Parts {
    is_bonded: bool,
    /// Number of the interface, weight, whether there is a next hop, rate in Mbit/s or 0.
    paths: Vec<(u8, u32, bool, u64)>,
    /// Networks, its key, whether there is an address.
    remotes: Vec<(Vec<u8>, usize, bool)>,
    local_networks: Vec<u8>,
    choice: usize,
    prometheus: Option<u16>,
    answers: bool,
}

fn any_parts() -> impl Strategy<Value = Parts> {
    let path = (0u8..4, 1u32..4, any::<bool>(), 0u64..3);
    let remote = (prop::collection::btree_set(0u8..4, 1..4), any::<bool>());
    (
        prop::collection::vec(path, 1..4),
        prop::collection::vec(remote, 1..3),
        prop::collection::btree_set(0u8..4, 0..3),
        0usize..5,
        prop::option::of(9000u16..9002),
        any::<bool>(),
    )
        .prop_map(|(mut paths, remotes, local_networks, choice, prometheus, answers)| {
            // An interface is one path's.
            let mut seen = Vec::new();
            paths.retain(|(interface, ..)| {
                !seen.contains(interface) && {
                    seen.push(*interface);
                    true
                }
            });
            let remotes = remotes.into_iter().enumerate();
            let remotes = remotes.map(|(key, (networks, known))| (networks.into_iter().collect(), key, known));
            Parts {
                is_bonded: false,
                paths,
                remotes: remotes.collect(),
                local_networks: local_networks.into_iter().collect(),
                choice,
                prometheus,
                answers,
            }
        })
}

fn text(parts: &Parts) -> String {
    let Parts { is_bonded, paths, remotes, local_networks, choice, prometheus, answers } = parts;
    let mut text = "[gateway]\nname = \"site\"\n".to_owned();
    if let Some(port) = prometheus {
        text += &format!("prometheus = \"{port}\"\n");
    }
    if *is_bonded {
        let choice = ["ratio", "weighted", "earliest-arrival", "redundant", "pinned"][*choice];
        text += &format!("plane = \"bonded\"\n[bonded]\nkey = \"k\"\nchoice = \"{choice}\"\n");
    } else {
        let networks: Vec<_> = local_networks.iter().map(|number| format!("\"10.1.{number}.0/24\"")).collect();
        text += &format!("[[local]]\ninterface = \"lan\"\nnetworks = [{}]\n", networks.join(", "));
    }
    text += &format!("[measure]\nanswer = {answers}\n");
    for (place, (interface, weight, has_gateway, rate)) in paths.iter().enumerate() {
        text += &format!("[[path]]\nname = \"p{interface}\"\ninterface = \"path{interface}\"\nweight = {weight}\n");
        if *has_gateway {
            text += &format!("gateways = [\"192.0.2.{}\"]\n", place + 1);
        }
        if *rate > 0 {
            text += &format!("rate = \"{rate}mbit\"\n");
        }
    }
    for (networks, key, is_known) in remotes {
        let listed: Vec<_> = networks.iter().map(|number| format!("\"10.{}.{number}.0/24\"", 10 + key)).collect();
        text += &format!("[[remote]]\nname = \"r{key}\"\nnetworks = [{}]\n", listed.join(", "));
        if *is_bonded {
            text += &format!("public-key = \"{}\"\n", KEYS[*key]);
            if *is_known {
                text += &format!("addresses = [\"198.51.100.{key}\"]\n");
            }
        }
    }
    text
}

proptest! {
    #[test]
    fn no_difference_goes_unsaid_and_nothing_else_is_said(one in any_parts(), other in any_parts(), is_bonded: bool) {
        let [one, other] = [one, other].map(|parts| read(&text(&Parts { is_bonded, ..parts })));
        prop_assert_eq!(one.changes_to(&one), Ok(Vec::new()));
        let changes = one.changes_to(&other).unwrap();
        prop_assert_eq!(changes.is_empty(), one == other, "{:?}", changes);
        // There and back are as many lines, about the same things.
        prop_assert_eq!(other.changes_to(&one).unwrap().len(), changes.len());
        prop_assert!(changes.iter().all(|line| !line.contains('\n')));
    }
}

const BONDED: &str = r#"[gateway]
name = "site"
plane = "bonded"

[bonded]
key = "gateway.key"

[[path]]
name = "dsl"
interface = "path0"
gateways = ["192.0.2.1"]

[[path]]
name = "lte"
interface = "path1"
weight = 3

[[remote]]
name = "far"
networks = ["10.2.0.0/24"]
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
addresses = ["198.51.100.1", "203.0.113.1"]
"#;

#[test]
fn each_change_is_a_line_that_names_it() {
    let cases = [
        ("weight = 3", "weight = 4", "path lte: weight: 4 in place of 3"),
        ("interface = \"path1\"", "interface = \"path2\"", "path lte: interface: path2 in place of path1"),
        ("192.0.2.1", "192.0.2.9", "path dsl: IPv4 gateway: 192.0.2.9 in place of 192.0.2.1"),
        ("weight = 3", "weight = 3\nrate = \"8mbit\"", "path lte: rate: 8000000 bit/s in place of none"),
        ("[\"10.2.0.0/24\"]", "[\"10.3.0.0/24\", \"10.2.0.0/24\"]", "remote far: network 10.3.0.0/24: added"),
        ("203.0.113.1", "203.0.113.9", "addresses: 198.51.100.1:7273, 203.0.113.9:7273 in place of"),
        ("6f\"", "5f\"", "remote far: public key: 85d3f0b4"),
        ("[bonded]", "[bonded]\nmtu = 1400", "MTU: 1400 in place of none"),
        ("[bonded]", "[bonded]\naddresses = [\"10.8.0.1/24\"]", "address 10.8.0.1/24: added"),
        ("[bonded]", "[bonded]\nunordered-ports = [5060]", "unordered ports: 5060 in place of none"),
        ("[bonded]", "[bonded]\nchoice = \"pinned\"", "choice: pinned in place of earliest-arrival"),
        ("[bonded]", "[measure]\nanswer = true\n[bonded]", "measure: answer: true in place of false"),
    ];
    for (from, to, line) in cases {
        let found = changes(BONDED, &BONDED.replacen(from, to, 1));
        assert!(found.len() == 1 && found[0].contains(line), "{line}: {found:?}");
    }
    // A path in another place has another number.
    let path = |name: &str, number: u8| format!("[[path]]\nname = \"{name}\"\ninterface = \"path{number}\"\n");
    let head = &BONDED[..BONDED.find("[[path]]").unwrap()];
    let tail = &BONDED[BONDED.find("[[remote]]").unwrap()..];
    let [one, other] = [["a", "b"], ["b", "a"]].map(|names| {
        let paths = names.map(|name| path(name, u8::from(name == "b")));
        [head, &paths.concat(), tail].concat()
    });
    assert_eq!(changes(&one, &other), ["path b: number: 1 in place of 2", "path a: number: 2 in place of 1"]);
}

#[test]
fn what_cannot_change_is_refused_by_its_key() {
    for (from, to, key) in [
        ("\"site\"", "\"other\"", "`name` in [gateway]"),
        ("plane = \"bonded\"", "plane = \"bonded\"\non-event = \"true\"", "`on-event` in [gateway]"),
        ("[bonded]", "[bonded]\nport = 7000", "`port` in [bonded]"),
        ("[bonded]", "[bonded]\nthreads = 2", "`threads` in [bonded]"),
        ("[bonded]", "[bonded]\ndevice = \"tun9\"", "`device` in [bonded]"),
    ] {
        let refused = refusal(BONDED, &BONDED.replacen(from, to, 1));
        assert!(refused.starts_with(key) && refused.contains("restart it"), "{refused}");
    }
    let direct = "[gateway]\nname = \"site\"\n[[local]]\ninterface = \"lan\"\n[[path]]\nname = \"dsl\"\n\
        interface = \"path0\"\n[[remote]]\nname = \"far\"\nnetworks = [\"10.2.0.0/24\"]\n";
    assert!(refusal(BONDED, direct).starts_with("`plane` in [gateway]"));
}

const SESSIONS: &str = r#"[gateway]
name = "site"

[sessions]
key = "gateway.key"

[[local]]
interface = "lan"
networks = ["10.1.0.0/24"]

[[path]]
name = "one"
interface = "path0"

[[path]]
name = "two"
interface = "path1"

[[remote]]
name = "right"
networks = ["10.2.0.0/24"]
sessions = true
public-key = "85d3f0b4c1a2968777665544332211000123456789abcdef0123456789abcd6f"
addresses = ["192.0.2.2", "192.0.2.3"]
"#;

#[test]
fn what_sessions_were_agreed_on_with_stays() {
    let other_remote = "[[remote]]\nname = \"third\"\nnetworks = [\"10.3.0.0/24\"]\n";
    assert_eq!(changes(SESSIONS, &format!("{SESSIONS}{other_remote}")), ["remote third: added"]);
    let weight = SESSIONS.replacen("\"path0\"", "\"path0\"\nweight = 5", 1);
    assert_eq!(changes(SESSIONS, &weight), ["path one: weight: 5 in place of 1"]);
    for (from, to, key) in [
        ("key = \"gateway.key\"", "key = \"gateway.key\"\nidle = \"90s\"", "[sessions]"),
        ("\"path1\"", "\"path2\"", "[[path]] of a gateway with [sessions]"),
        ("10.1.0.0/24", "10.1.1.0/24", "[[local]] and [[translation]]"),
        ("10.2.0.0/24", "10.2.1.0/24", "a [[remote]] with `sessions = true`"),
        ("192.0.2.3", "192.0.2.4", "a [[remote]] with `sessions = true`"),
    ] {
        let refused = refusal(SESSIONS, &SESSIONS.replacen(from, to, 1));
        assert!(refused.starts_with(key), "{refused}");
    }
}
