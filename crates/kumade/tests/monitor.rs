//! `kumade monitor` from end to end: probes and measurements of real paths, the archive, the page, what a kill leaves.

use kumade_net::HostClaim;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

struct Site {
    hosts: VethHosts,
    directory: PathBuf,
}

impl Site {
    fn new(test: &str, targets: &str) -> Self {
        let hosts = VethHosts::new(1500).unwrap();
        run_ip(&hosts.middle, &["link", "add", "bridge", "type", "bridge"]).unwrap();
        for port in VethHosts::MIDDLE_INTERFACES {
            run_ip(&hosts.middle, &["link", "set", port, "master", "bridge"]).unwrap();
        }
        run_ip(&hosts.middle, &["link", "set", "bridge", "up"]).unwrap();
        run_ip(&hosts.left, &["link", "set", "lo", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let archive = directory.join("archive");
        let text = format!("[monitor]\nname = \"here\"\narchive = {archive:?}\nprometheus = \"9274\"\n{targets}");
        fs::write(directory.join("monitor.toml"), text).unwrap();
        Site { hosts, directory }
    }

    fn kumade(&self, inside: &Namespace, arguments: &[&str]) -> Command {
        let mut command = inside.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.directory).stderr(Stdio::null());
        command
    }

    fn monitor(&self) -> Child {
        let file = self.directory.join("monitor.toml");
        self.kumade(&self.hosts.left, &["monitor", "--config", file.to_str().unwrap()]).spawn().unwrap()
    }

    /// The head and the body of the answer.
    fn fetch(&self, port: u16, path: &str) -> Option<(String, String)> {
        self.fetch_as("localhost", port, path)
    }

    /// By another name of the host.
    fn fetch_as(&self, host: &str, port: u16, path: &str) -> Option<(String, String)> {
        let mut stream = self.hosts.left.run(|| TcpStream::connect(("127.0.0.1", port))).unwrap().ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.to_owned(), body.to_owned()))
    }

    fn document(&self, path: &str) -> Value {
        let body = self.fetch(7280, path).map(|(_, body)| body).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// The pair of this id in the status.
    fn pair(&self, id: &str) -> Value {
        let status = self.document("/api/v1/status");
        let pairs = status["pairs"].as_array().cloned().unwrap_or_default();
        pairs.into_iter().find(|pair| pair["id"] == id).unwrap_or_default()
    }

    /// Probes of a pair that the archive has, lost ones included; and its gaps.
    fn archived(&self, id: &str) -> (u64, Vec<Value>) {
        let series = self.document(&format!("/api/v1/pairs/{id}/series"));
        let buckets = series["buckets"].as_array().cloned().unwrap_or_default();
        let count = |bucket: &Value| bucket["sent"].as_u64().unwrap() + bucket["disturbed"].as_u64().unwrap();
        (buckets.iter().map(count).sum(), series["gaps"].as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn end_with(child: &mut Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    let status = child.wait().unwrap();
    assert!(signal == Signal::SIGKILL || status.success(), "{status}");
}

const TARGETS: &str = r#"
[[target]]
host = "10.79.0.2"
name = "measured"
probe = "stamp"
interval = "100ms"
measure = "1min"
[[target]]
host = "fd79::2"
name = "pinged"
interval = "100ms"
[[target]]
host = "10.79.0.99"
name = "absent"
interval = "100ms"
lost-after = "1s"
"#;

#[test]
fn paths_are_probed_and_measured_and_what_was_seen_is_kept() {
    in_namespaces("paths_are_probed_and_measured_and_what_was_seen_is_kept", || {
        let site = Site::new("monitor_keeps", TARGETS);
        let mut server = site.kumade(&site.hosts.right, &["serve", "--stamp"]).spawn().unwrap();
        let mut monitor = site.monitor();

        // A path without a limit, on a busy machine, may have no value; then it has a reason.
        let is_known = |figure: &Value| figure["value"].is_number() || figure["reason"].is_string();
        assert!(eventually(|| is_known(&site.pair("measured")["run"]["up"])), "{}", site.pair("measured"));
        assert!(eventually(|| site.pair("pinged")["state"]["word"] == "up"));
        assert!(eventually(|| site.pair("absent")["state"]["word"] == "down"));
        let measured = site.pair("measured");
        assert_eq!((&measured["address"], &measured["probe"]), (&"10.79.0.2".into(), &"stamp".into()));
        let run = site.document(&format!("/api/v1/runs/{}", measured["run"]["id"]));
        assert_eq!(run["document"]["schema"], "kumade.measure/1");
        // What happened to a path, from the first answer on, is found with it.
        let events = site.document("/api/v1/events")["events"].as_array().cloned().unwrap_or_default();
        let states: Vec<_> = events.iter().filter(|event| event["kind"] == "state").collect();
        assert!(states.len() >= 3 && states.iter().all(|event| event["pair"].is_string()), "{states:?}");
        assert!(eventually(|| site.pair("pinged")["delays"][0]["lane"] == "round_trip"), "{}", site.pair("pinged"));
        // While a measurement ran, nothing counts.
        assert!(eventually(|| site.pair("absent")["loss"]["low"].as_f64().is_some_and(|low| low > 0.2)));

        // While another measurement runs, no path is down.
        let mut shown = String::new();
        let is_shown = || {
            let output = site.kumade(&site.hosts.left, &["monitor", "show"]).output().unwrap();
            shown = String::from_utf8(output.stdout).unwrap();
            ["measured", "pinged", "absent", "down"].iter().all(|part| shown.contains(part))
        };
        assert!(eventually(is_shown), "{shown}");
        let mut metrics = String::new();
        let are_told = || {
            metrics = site.fetch(9274, "/metrics").map(|(_, metrics)| metrics).unwrap_or_default();
            metrics.contains("kumade_monitor_path_up{pair=\"absent\"} 0")
                && metrics.contains("kumade_monitor_measurement_age_seconds{pair=\"measured\"}")
        };
        assert!(eventually(are_told), "{metrics}");

        // What other programs read, and a copy that is an archive itself, while the monitor writes.
        let file = site.directory.join("monitor.toml");
        let export = |file: &PathBuf, more: &[&str]| {
            let arguments = [&["monitor", "export", file.to_str().unwrap()], more].concat();
            String::from_utf8(site.kumade(&site.hosts.left, &arguments).output().unwrap().stdout).unwrap()
        };
        let runs = export(&file, &["--pair", "measured"]);
        assert!(runs.starts_with("pair,ip_version,started") && runs.lines().count() >= 2, "{runs}");
        let mut probes = String::new();
        let are_exported = || {
            probes = export(&file, &["--what", "probes", "--json"]);
            let lines: Vec<Value> = probes.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let is_lost = |line: &Value| line["pair"] == "absent" && line["lost"].as_u64() > Some(0);
            lines.iter().any(is_lost) && lines.iter().any(|line| line["ip_version"] == 6)
        };
        assert!(eventually(are_exported), "{probes}");
        let copy = site.directory.join("copy");
        fs::create_dir(&copy).unwrap();
        let database = copy.join("archive.db");
        let arguments = ["monitor", "backup", file.to_str().unwrap(), database.to_str().unwrap()];
        assert!(site.kumade(&site.hosts.left, &arguments).status().unwrap().success());
        assert!(!site.kumade(&site.hosts.left, &arguments).status().unwrap().success(), "nothing is overwritten");
        // Whatever the user's umask is.
        let archive = site.directory.join("archive");
        for path in [&archive, &archive.join("archive.db"), &database] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
        let copied = site.directory.join("copied.toml");
        fs::write(&copied, format!("[monitor]\narchive = {copy:?}\n{TARGETS}")).unwrap();
        assert!(export(&copied, &["--pair", "measured"]).starts_with(runs.lines().next().unwrap()));

        // What has been committed survives a kill; the time until the next start is a gap with its cause.
        assert!(eventually(|| site.archived("pinged").0 >= 20));
        let before = site.archived("pinged").0;
        end_with(&mut monitor, Signal::SIGKILL);
        std::thread::sleep(std::time::Duration::from_secs(3));
        let mut monitor = site.monitor();
        assert!(eventually(|| site.pair("pinged")["state"]["word"] == "up"));
        assert!(eventually(|| site.archived("pinged").0 > before));
        let has_gap = || site.archived("pinged").1.iter().any(|gap| gap["cause"] == "the monitor did not run");
        assert!(eventually(has_gap), "{:?}", site.archived("pinged"));
        let is_known = || site.pair("measured")["run"]["id"].is_number();
        assert!(eventually(is_known), "the last measurement is known again");

        end_with(&mut monitor, Signal::SIGTERM);
        end_with(&mut server, Signal::SIGTERM);
    });
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_refuses_what_makes_no_sense() {
    in_namespaces("the_page_loads_nothing_from_elsewhere_and_refuses_what_makes_no_sense", || {
        let site =
            Site::new("monitor_page", "[[target]]\nhost = \"10.79.0.2\"\nname = \"one\"\ninterval = \"100ms\"\n");
        let mut monitor = site.monitor();
        assert!(eventually(|| site.archived("one").0 > 0));
        let (head, page) = site.fetch(7280, "/pair/one").unwrap();
        assert!(
            head.to_lowercase().contains("content-security-policy: default-src 'none'; script-src 'self'"),
            "{head}"
        );
        let assets = page.split('"').filter(|part| part.starts_with("/assets/"));
        let assets: Vec<_> = assets.collect();
        assert!(assets.len() >= 4 && !page.contains("//"), "{page}");
        for asset in assets {
            let (head, body) = site.fetch(7280, asset).unwrap();
            assert!(head.starts_with("HTTP/1.1 200") && !body.is_empty(), "{asset}: {head}");
        }
        for (path, status, text) in [
            ("/api/v1/pairs/none/series", "404", "no data of a path"),
            ("/api/v1/pairs/one/series?from=5&to=1", "400", "a later `to`"),
            ("/api/v1/pairs/one/series?from=-1&to=1e300", "400", "a later `to`"),
            ("/api/v1/pairs/one/series?points=x", "400", ""),
            ("/api/v1/runs/99", "404", "measurement 99"),
            ("/api/v1/nothing", "404", "no such document"),
            ("/assets/none", "404", "no such file"),
        ] {
            let (head, body) = site.fetch(7280, path).unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")) && body.contains(text), "{path}: {head} {body}");
        }
        // A foreign page whose name leads here.
        for (name, is_served) in [
            ("rebound.example", false),
            ("rebound.example:7280", false),
            ("127.0.0.1:7280", true),
            ("[::1]:7280", true),
        ] {
            let (head, _) = site.fetch_as(name, 7280, "/api/v1/status").unwrap();
            assert_eq!(head.starts_with("HTTP/1.1 200"), is_served, "{name}: {head}");
        }
        end_with(&mut monitor, Signal::SIGTERM);
    });
}

/// What cannot be archived is told of until it can, and is archived then.
#[test]
fn a_full_disk_is_told_of_as_long_as_it_is_full() {
    in_namespaces("a_full_disk_is_told_of_as_long_as_it_is_full", || {
        let site = Site::new("monitor_full", "[[target]]\nhost = \"127.0.0.1\"\nname = \"one\"\ninterval = \"20ms\"\n");
        let (archive, file) = (site.directory.join("archive"), site.directory.join("monitor.toml"));
        fs::create_dir(&archive).unwrap();
        // A file system of its own, which only the monitor sees: the reserve fits, and some more.
        let start = "mount -t tmpfs -o size=80m none \"$1\" && exec \"$0\" monitor --config \"$2\"";
        let mut command = site.hosts.left.command("unshare");
        command.args(["--mount", "sh", "-c", start]).arg(assert_cmd::cargo::cargo_bin("kumade"));
        command.arg(&archive).arg(&file).env("XDG_RUNTIME_DIR", &site.directory).stderr(Stdio::null());
        let mut monitor = command.spawn().unwrap();
        assert!(eventually(|| site.archived("one").0 > 0));
        let inside = PathBuf::from(format!("/proc/{}/root", monitor.id())).join(archive.strip_prefix("/").unwrap());
        let filler = inside.join("filler");
        let fill = || {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(&filler).unwrap();
            while file.write(&[0; 65_536]).is_ok_and(|count| count > 0) {}
        };
        let failure = || site.document("/api/v1/status")["archive_failure"].clone();
        let is_told = || {
            // Also what the reserve has left.
            fill();
            failure().as_str().is_some_and(|failure| failure.contains("the disk is full"))
        };
        assert!(eventually(is_told), "{}", failure());
        for _ in 0..30 {
            assert!(is_told(), "{}", failure());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let before = site.archived("one").0;
        fs::remove_file(&filler).unwrap();
        assert!(eventually(|| failure().is_null()));
        // Fifty a second: three seconds of them waited.
        assert!(eventually(|| site.archived("one").0 > before + 100));
        end_with(&mut monitor, Signal::SIGTERM);
    });
}

#[test]
fn a_schedule_that_cannot_be_met_is_refused() {
    let directory = std::env::temp_dir().join(format!("kumade-monitor_refuses-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("monitor.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let output = Command::new(assert_cmd::cargo::cargo_bin("kumade"))
            .args(["monitor", "check"])
            .arg(&file)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, plan, _) = check("[[target]]\nhost = \"a.example\"\nmeasure = \"10min\"\n");
    assert!(status == Some(0) && plan.contains("MB after a year") && plan.contains("% of this host's time"), "{plan}");
    let (status, _, error) = check(
        "[[target]]\nhost = \"a.example\"\nmeasure = \"30s\"\n[[target]]\nhost = \"b.example\"\nmeasure = \"30s\"\n",
    );
    assert!(status == Some(1) && error.contains("times as long"), "{error}");
    let (status, _, error) = check("[[target]]\nhots = \"a.example\"\n");
    assert!(status == Some(2) && error.contains("monitor.toml:2") && error.contains("hots"), "{error}");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_monitor_and_other_programs_do_not_measure_at_once() {
    in_namespaces("a_monitor_and_other_programs_do_not_measure_at_once", || {
        let site = Site::new("monitor_waits", TARGETS);
        let mut server = site.kumade(&site.hosts.right, &["serve", "--stamp"]).spawn().unwrap();
        let claim = site.hosts.left.run(HostClaim::try_new).unwrap().unwrap();
        let mut monitor = site.monitor();
        let disturbed = || {
            let series = site.document("/api/v1/pairs/pinged/series");
            let buckets = series["buckets"].as_array().cloned().unwrap_or_default();
            buckets.iter().map(|bucket| bucket["disturbed"].as_u64().unwrap()).sum::<u64>()
        };
        // Probes are marked, and it is measured as soon as nobody else does.
        assert!(eventually(|| disturbed() > 0));
        assert!(site.pair("measured")["run"].is_null(), "{}", site.pair("measured"));
        drop(claim);
        let is_refused = || {
            let words = ["measure", "10.79.0.2", "--wait", "10ms", "--direction", "up", "--method", "linear-scan"];
            let output = site.kumade(&site.hosts.left, &words).stderr(Stdio::piped()).output().unwrap();
            String::from_utf8_lossy(&output.stderr).contains("beside `kumade monitor` (process ")
        };
        assert!(eventually(is_refused));
        assert!(eventually(|| site.pair("measured")["run"]["up"].is_object()));
        let map = site.document("/api/v1/heatmap?points=24");
        assert_eq!(map["rows"].as_array().map(Vec::len), Some(3), "{map}");
        assert!(map["rows"][1]["cells"][0]["disturbed"].as_u64().unwrap() > 0, "{map}");
        let map = site.document("/api/v1/heatmap?show=up&first=0&rows=1");
        assert_eq!(map["rows"].as_array().map(Vec::len), Some(1), "{map}");
        let cell = &map["rows"][0]["cells"][0];
        // Another one may have ended meanwhile.
        assert!(cell["known"].as_u64().unwrap() + cell["unknown"].as_u64().unwrap() >= 1, "{map}");
        let (head, _) = site.fetch(7280, "/api/v1/heatmap?from=7&to=7").unwrap();
        assert!(head.starts_with("HTTP/1.1 400"), "{head}");
        end_with(&mut monitor, Signal::SIGTERM);
        end_with(&mut server, Signal::SIGTERM);
    });
}
