//! A mesh of `kumade monitor` from end to end: a coordinator and three agents, each a program on a host of its own.

use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use kumade_noise_session::PrivateKey;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

/// Hosts on one switch: host `n` has the address 10.80.0.`n`.
struct Mesh {
    _switch: Namespace,
    hosts: Vec<Namespace>,
    directory: PathBuf,
}

const COORDINATOR: usize = 1;
/// Three agents, and one whose key the coordinator does not know.
const AGENTS: [(usize, &str); 3] = [(2, "berlin"), (3, "paris"), (4, "rome")];
const STRANGER: usize = 5;

fn identity(number: usize) -> PrivateKey {
    PrivateKey::from_bytes([number as u8; 32])
}

impl Mesh {
    fn new(test: &str) -> Self {
        let switch = Namespace::new().unwrap();
        run_ip(&switch, &["link", "add", "bridge", "type", "bridge"]).unwrap();
        run_ip(&switch, &["link", "set", "bridge", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let host = |number: usize| {
            let host = Namespace::new().unwrap();
            let port = format!("port{number}");
            let arguments = ["link", "add", &port, "type", "veth", "peer", "name", "host", "netns", &host.path()];
            run_ip(&switch, &arguments).unwrap();
            run_ip(&switch, &["link", "set", &port, "master", "bridge", "up"]).unwrap();
            run_ip(&host, &["addr", "add", &format!("10.80.0.{number}/24"), "dev", "host"]).unwrap();
            run_ip(&host, &["link", "set", "host", "up"]).unwrap();
            run_ip(&host, &["link", "set", "lo", "up"]).unwrap();
            host
        };
        let hosts = (COORDINATOR..=STRANGER).map(host).collect();
        let mesh = Mesh { _switch: switch, hosts, directory };
        for number in COORDINATOR..=STRANGER {
            mesh.write(&format!("{number}.key"), &identity(number).to_hex());
            let (archive, key) = (mesh.directory.join(format!("archive{number}")), mesh.file(&format!("{number}.key")));
            let coordinator = identity(COORDINATOR).public_key();
            let text = format!(
                "[monitor]\nrole = \"agent\"\nkey = {key:?}\narchive = {archive:?}\nstamp-port = 8620\n[coordinator]\naddress = \"10.80.0.{COORDINATOR}\"\npublic-key = \"{coordinator}\"\n"
            );
            mesh.write(&format!("{number}.toml"), &text);
        }
        let mut text = format!(
            "[monitor]\nrole = \"coordinator\"\nkey = {:?}\narchive = {:?}\n[mesh]\ninterval = \"100ms\"\nmeasure = \"70s\"\n",
            mesh.file("1.key"),
            mesh.directory.join("archive1")
        );
        for (number, id) in AGENTS {
            let key = identity(number).public_key();
            text += &format!(
                "[[agent]]\nid = \"{id}\"\naddress = \"10.80.0.{number}\"\npublic-key = \"{key}\"\nstamp-port = 8620\n"
            );
        }
        mesh.write("1.toml", &text);
        mesh
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Keys are for their user's eyes alone.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn kumade(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = self.hosts[host - 1].command(assert_cmd::cargo::cargo_bin("kumade"));
        let runtime = self.directory.join(format!("run{host}"));
        fs::create_dir_all(&runtime).unwrap();
        command.args(arguments).env("XDG_RUNTIME_DIR", runtime);
        command
    }

    /// The program of a host; what it says is at the end of its log.
    fn start(&self, host: usize) -> Child {
        let log = File::options().create(true).append(true).open(self.file(&format!("{host}.log"))).unwrap();
        let file = self.file(&format!("{host}.toml"));
        self.kumade(host, &["monitor", "--config", file.to_str().unwrap()]).stderr(log).spawn().unwrap()
    }

    fn log(&self, host: usize) -> String {
        fs::read_to_string(self.file(&format!("{host}.log"))).unwrap_or_default()
    }

    fn logs(&self) -> String {
        (COORDINATOR..=STRANGER).map(|host| format!("--- {host}\n{}", self.log(host))).collect()
    }

    fn document(&self, path: &str) -> Value {
        let fetch = || {
            let mut stream = self.hosts[COORDINATOR - 1].run(|| TcpStream::connect("127.0.0.1:7280")).unwrap().ok()?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            Some(text.split_once("\r\n\r\n")?.1.to_owned())
        };
        serde_json::from_str(&fetch().unwrap_or_default()).unwrap_or_default()
    }

    fn pairs(&self) -> Vec<Value> {
        self.document("/api/v1/status")["pairs"].as_array().cloned().unwrap_or_default()
    }

    /// Probes of a pair that the archive has of a time, in seconds since 1970.
    fn archived(&self, id: &str, from: f64, to: f64) -> u64 {
        let series = self.document(&format!("/api/v1/pairs/{id}/series?from={from}&to={to}"));
        let count = |bucket: &Value| bucket["sent"].as_u64().unwrap() + bucket["disturbed"].as_u64().unwrap();
        series["buckets"].as_array().map_or(0, |buckets| buckets.iter().map(count).sum())
    }

    /// Files of what an agent has not delivered.
    fn spooled(&self, host: usize) -> usize {
        fs::read_dir(self.file(&format!("archive{host}/spool"))).map_or(0, Iterator::count)
    }

    fn runs(&self) -> Vec<Value> {
        let file = self.file("1.toml");
        let arguments = ["monitor", "export", file.to_str().unwrap(), "--json"];
        let output = self.kumade(COORDINATOR, &arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

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

fn now_seconds() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

fn end_with(child: &mut Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    assert!(signal == Signal::SIGKILL || status.success(), "{status}");
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
