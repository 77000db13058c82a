//! A mesh of `kumade monitor` from end to end: a coordinator and three agents, each a program on a host of its own.

use crate::mesh_hosts;

use kumade_netns_testbed::{eventually, in_namespaces};
use mesh_hosts::{AGENTS, COORDINATOR, Mesh, STRANGER, end_with, identity, now_seconds};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::time::Duration;

/// What `monitor check` says of a coordinator's file.
#[test]
fn a_mesh_is_checked_before_it_runs() {
    let directory = std::env::temp_dir().join(format!("kumade-monitor_mesh_check-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let key = directory.join("own.key");
    fs::write(&key, &*identity(1).to_hex()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let check = |period: &str, link: &str| {
        let mut text = format!("[monitor]\nrole = \"coordinator\"\nkey = {key:?}\n[mesh]\nmeasure = \"{period}\"\n");
        for number in 1..=5 {
            let address = if number < 4 { format!("address = \"192.0.2.{number}\"\n") } else { String::new() };
            let key = identity(10 + number).public_key();
            text += &format!("[[agent]]\nid = \"site{number}\"\npublic-key = \"{key}\"\n{address}");
        }
        let file = directory.join("mesh.toml");
        fs::write(&file, text + link).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("kumade"));
        let output = command.args(["monitor", "check"]).arg(&file).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let link = "[[link]]\nname = \"uplink\"\nagents = [\"site1\", \"site2\", \"site3\"]\n";
    let (status, plan, error) = check("10min", link);
    assert_eq!(status, Some(0), "{error}");
    // Three pairs among the three, and six with those that nobody reaches, which cannot measure to each other.
    assert_eq!(plan.matches("measured every").count(), 9, "{plan}");
    assert!(plan.contains("site4:site5: cannot be measured: neither end accepts connections"), "{plan}");
    assert!(plan.contains("link uplink (up): 20.0 % of the time measured"), "{plan}");
    assert!(plan.contains("shortest possible period"), "{plan}");
    let (status, _, error) = check("2min", link);
    assert!(status == Some(1) && error.contains("link uplink") && error.contains("times as long"), "{error}");
    // Without the link, more of them run at once.
    let (status, _, error) = check("2min", "");
    assert_eq!(status, Some(0), "{error}");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn agents_measure_between_each_other_and_what_they_find_is_kept() {
    in_namespaces("agents_measure_between_each_other_and_what_they_find_is_kept", || {
        let mesh = Mesh::new("monitor_mesh");
        let mut coordinator = mesh.start(COORDINATOR);
        let mut agents: Vec<Child> = AGENTS.iter().map(|(number, _)| mesh.start(*number)).collect();
        let mut stranger = mesh.start(STRANGER);

        // A session of light probes goes both ways: three of them are six directions.
        let are_answered = || {
            let pairs = mesh.pairs();
            pairs.len() == 3
                && pairs.iter().all(|pair| ["up", "lossy"].iter().any(|word| pair["state"]["word"] == *word))
        };
        assert!(eventually(are_answered), "{:?}\n{}", mesh.pairs(), mesh.logs());
        let ids: Vec<String> = mesh.pairs().iter().map(|pair| pair["id"].as_str().unwrap().to_owned()).collect();
        for (_, agent) in AGENTS {
            assert_eq!(ids.iter().filter(|id| id.split(':').any(|end| end == agent)).count(), 2, "{ids:?}");
        }
        let start = now_seconds() - 600.0;
        assert!(eventually(|| ids.iter().all(|id| mesh.archived(id, start, now_seconds()) > 0)), "{}", mesh.logs());
        let is_refused = |log: String| log.contains(&identity(STRANGER).public_key().to_string());
        assert!(eventually(|| is_refused(mesh.log(COORDINATOR))), "{}", mesh.logs());

        // A path without a limit, on a busy machine, may have no value; then it has a reason.
        let is_known = |run: &Value| run["up_bits_per_second"].is_number() || run["up_reason"].is_string();
        assert!(eventually(|| mesh.runs().iter().any(is_known)), "{:?}\n{}", mesh.runs(), mesh.logs());
        assert!(mesh.runs().iter().all(|run| ids.iter().any(|id| run["pair"] == **id)), "{:?}", mesh.runs());

        // Nobody measures to an agent without a grant.
        let refused = mesh.kumade(COORDINATOR, &["measure", "10.80.0.2", "--json"]).output().unwrap();
        assert!(!refused.status.success(), "{}", mesh.logs());

        // While the coordinator is away, agents go on, and deliver later; what was acknowledged is there.
        let archived = || ids.iter().map(|id| mesh.archived(id, start, now_seconds())).collect::<Vec<_>>();
        let before = archived();
        end_with(&mut coordinator, Signal::SIGKILL);
        assert!(eventually(|| AGENTS.iter().all(|(agent, _)| mesh.spooled(*agent) > 0)), "{}", mesh.logs());
        // One that is started anew meanwhile knows whom to probe.
        end_with(&mut agents[0], Signal::SIGKILL);
        std::thread::sleep(Duration::from_secs(7));
        agents[0] = mesh.start(AGENTS[0].0);
        let mut coordinator = mesh.start(COORDINATOR);
        assert!(eventually(|| archived().iter().zip(&before).all(|(now, before)| now > before)), "{}", mesh.logs());
        // A file goes once all in it is acknowledged.
        assert!(eventually(|| AGENTS.iter().all(|(agent, _)| mesh.spooled(*agent) == 0)), "{}", mesh.logs());
        assert!(eventually(are_answered), "{:?}\n{}", mesh.pairs(), mesh.logs());
        let own: Vec<_> = ids.iter().filter(|id| id.starts_with(AGENTS[0].1)).collect();
        let has_gap = |id: &str| {
            let series = mesh.document(&format!("/api/v1/pairs/{id}/series?from={start}&to={}", now_seconds()));
            series["gaps"].as_array().is_some_and(|gaps| gaps.iter().any(|gap| gap["cause"] == "the agent did not run"))
        };
        assert!(!own.is_empty() && eventually(|| own.iter().all(|id| has_gap(id))), "{}", mesh.logs());
        let shown = mesh.kumade(COORDINATOR, &["monitor", "show"]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("of 3 agents are connected"), "{shown}");

        end_with(&mut stranger, Signal::SIGTERM);
        agents.iter_mut().for_each(|agent| end_with(agent, Signal::SIGTERM));
        end_with(&mut coordinator, Signal::SIGTERM);
    });
}
