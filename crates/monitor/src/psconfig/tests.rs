use super::*;
use crate::config::MonitorConfig;
use kumade_units::Span;

const TEMPLATE: &str = r#"{
  "_meta": { "display-name": "three sites and a router" },
  "archives": { "central": { "archiver": "http", "data": {} } },
  "includes": ["https://example.org/more.json"],
  "addresses": {
    "paris": { "address": "ps.paris.example.org", "remote-addresses": { "lyon": { "address": "10.0.0.1" } } },
    "lyon": { "address": "2001:db8::7", "_meta": { "city": "Lyon" } },
    "nice": { "address": "ps.nice.example.org" },
    "lille": { "address": "ps.lille.example.org", "disabled": true },
    "brest": { "address": "ps.brest.example.org", "labels": { "fast": { "address": "f.brest.example.org" } } }
  },
  "groups": {
    "all": {
      "type": "mesh",
      "addresses": [{ "name": "paris" }, { "name": "lyon" }, { "name": "nice" }, { "name": "lille" }, { "class": "others" }],
      "excludes": [
        { "local-address": { "name": "nice" }, "target-addresses": [{ "name": "lyon" }] },
        { "local-address": { "name": "lyon" }, "target-addresses": [{ "name": "nice" }] }
      ]
    },
    "from-brest": { "type": "disjoint", "a-addresses": [{ "name": "brest" }], "b-addresses": [{ "name": "lyon" }] },
    "single": { "type": "list", "addresses": [{ "name": "paris" }] }
  },
  "tests": {
    "delay": { "type": "latencybg", "spec": { "source": "{% address[0] %}", "packet-interval": 0.1, "packet-count": 600 } },
    "rate": { "type": "throughput", "spec": { "dest": "{% address[1] %}", "duration": "PT30S", "ip-version": 6 } },
    "way": { "type": "trace", "spec": {} }
  },
  "schedules": {
    "seldom": { "repeat": "P1DT12H", "sliprand": true, "slip": "PT6H", "max-runs": 7 },
    "often": { "repeat": "PT6H" }
  },
  "tasks": {
    "a": { "group": "all", "test": "delay" },
    "b": { "group": "all", "test": "rate", "schedule": "seldom", "tools": ["iperf3"] },
    "c": { "group": "from-brest", "test": "rate", "schedule": "often" },
    "d": { "group": "all", "test": "way", "schedule": "often" },
    "e": { "group": "single", "test": "delay" },
    "f": { "group": "all", "test": "rate" },
    "g": { "group": "all", "test": "delay", "disabled": true }
  }
}"#;

fn paths(from: &str) -> MonitoredPaths {
    Template::parse(TEMPLATE).unwrap().targets_of(from).unwrap()
}

#[test]
fn the_tests_of_a_host_become_its_targets() {
    let of_lyon = paths("lyon");
    let names: Vec<_> = of_lyon.targets.iter().map(|target| (target.name.as_str(), target.host.as_str())).collect();
    assert_eq!(names, [("brest", "ps.brest.example.org"), ("paris", "10.0.0.1")]);
    assert_eq!(
        of_lyon.targets[0].to_string(),
        "[[target]]\nhost = \"ps.brest.example.org\"\nname = \"brest\"\nid = \"brest\"\nfamily = \"ipv6\"\nmeasure = \"21600s\"\n"
    );
    assert_eq!(
        of_lyon.targets[1].to_string(),
        "[[target]]\nhost = \"10.0.0.1\"\nname = \"paris\"\nid = \"paris\"\ninterval = \"100ms\"\nmeasure = \"129600s\"\n"
    );
    let names = |from| paths(from).targets.into_iter().map(|target| target.name).collect::<Vec<_>>();
    assert_eq!(names("ps.paris.example.org"), ["lyon", "nice"], "by its address");
    assert_eq!(names("brest"), ["lyon"]);
}

#[test]
fn what_is_printed_is_a_configuration() {
    for from in ["lyon", "paris", "nice", "brest"] {
        let text = paths(from).to_string();
        let config = MonitorConfig::from_toml(&text, "m.toml", &|_| Err(String::new())).unwrap();
        assert_eq!((config.name.as_str(), config.targets.len()), (from, paths(from).targets.len()), "{text}");
    }
}

#[test]
fn what_is_left_out_is_named_with_the_reason() {
    let left_out = paths("paris").left_out;
    let found: Vec<_> = left_out.iter().map(|item| item.path.as_str()).collect();
    assert_eq!(
        found,
        [
            "addresses.brest.labels",
            "groups.all.addresses[4]",
            "tests.delay.spec.packet-count",
            "tests.rate.spec.duration",
            "schedules.seldom.max-runs",
            "tasks.b.tools",
            "tasks.d",
            "tasks.e",
            "tasks.f",
            "tasks.g",
            "archives.central",
            "includes",
            "addresses.lille",
        ]
    );
    assert!(left_out.iter().all(|item| !item.reason.is_empty()));
}

#[test]
fn faults_are_named_with_their_place() {
    let fault = |from: &str, to: &str| {
        let text = TEMPLATE.replacen(from, to, 1);
        assert_ne!(text, TEMPLATE, "{from}");
        Template::parse(&text).map(drop).unwrap_err().to_string()
    };
    for (from, to, reason) in [
        ("{", "", "line 2, column 10: no JSON: trailing characters"),
        ("\"addresses\"", "\"adresses\"", "the template: `addresses` is missing"),
        ("ps.nice.example.org", "ps nice", "addresses.nice.address: it is neither"),
        ("\"nice\": {", "\"ni\\nce\": {", "addresses.ni?ce: the name of an address"),
        ("\"mesh\"", "\"star\"", "groups.all: the type `star` is unknown"),
        (
            "\"name\": \"lyon\" }, {",
            "\"name\": \"lion\" }, {",
            "groups.all.addresses[1].name: there is no address `lion`",
        ),
        ("\"test\": \"delay\" }", "\"test\": \"dalay\" }", "tasks.a.test: there is no `dalay` in `tests`"),
        ("PT6H\" }", "6 hours or so\" }", "schedules.often.repeat: `6 hours or so` is no ISO 8601 duration"),
        ("\"type\": \"trace\"", "\"type\": 3", "tests.way.type: a text in quotes"),
        ("\"b-addresses\": [", "\"b-addresses\": 3, \"c\": [", "groups.from-brest.b-addresses: a list"),
    ] {
        let text = fault(from, to);
        assert!(text.contains(reason), "{text}");
    }
    let unknown = Template::parse(TEMPLATE).unwrap().targets_of("berlin").unwrap_err().to_string();
    assert_eq!(unknown, "there is no address `berlin`; there are brest, lille, lyon, nice, paris");
}

#[test]
fn a_template_becomes_a_mesh_of_its_hosts() {
    let mesh = Template::parse(TEMPLATE).unwrap().into_mesh();
    let agents: Vec<_> = mesh.agents.iter().map(|agent| (agent.name.as_str(), agent.address.as_str())).collect();
    let expected = [
        ("brest", "ps.brest.example.org"),
        ("lyon", "2001:db8::7"),
        ("nice", "ps.nice.example.org"),
        ("paris", "ps.paris.example.org"),
    ];
    assert_eq!(agents, expected);
    assert_eq!((mesh.interval, mesh.period), (Some(Span::from_millis(100)), Some(Span::from_secs(6 * 3600))));
    let found = |path: &str| mesh.left_out.iter().any(|item| item.path == path && !item.reason.is_empty());
    for path in [
        "groups.all.excludes",
        "groups.from-brest",
        "groups.from-brest.type",
        "addresses.lille",
        "addresses.paris.remote-addresses",
        "tasks.d",
    ] {
        assert!(found(path), "{path}: {:?}", mesh.left_out);
    }
    // Once it has keys, it is a coordinator's file.
    let mut number = 0;
    let text = mesh.to_string().split("public-key = \"\"").fold(String::new(), |text, part| {
        number += 1;
        let key = format!("public-key = \"{}\"", format!("{number:02x}").repeat(32));
        if text.is_empty() { part.to_owned() } else { text + &key + part }
    });
    let read_key = |_: &std::path::Path| Ok(kumade_wire::PresharedKey::from_bytes([7; 32]));
    let config = MonitorConfig::from_toml(&text, "m.toml", &read_key).unwrap();
    assert_eq!(config.mesh.unwrap().agents.len(), 4, "{text}");
}
