//! Who may see the page of `kumade monitor`, and its configuration that changes while it runs.

use crate::privileges;

use assert_cmd::cargo::cargo_bin;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE: &str = "127.0.0.1:7280";
const TARGET: &str = "[[target]]\nhost = \"127.0.0.1\"\nname = \"one\"\ninterval = \"100ms\"\n";

const CAP_NET_RAW: u64 = 1 << 13;

/// A host with a monitor.
struct Site {
    namespace: Namespace,
    directory: PathBuf,
}

/// What came back.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Site {
    fn new(test: &str, namespace: Namespace) -> Self {
        run_ip(&namespace, &["link", "set", "lo", "up"]).unwrap();
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Site { namespace, directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.join("monitor.toml")
    }

    /// The configuration: lines of `[monitor]`, and what follows.
    fn write(&self, monitor: &str, rest: &str) {
        let archive = self.directory.join("archive");
        fs::write(self.file(), format!("[monitor]\nname = \"here\"\narchive = {archive:?}\n{monitor}\n{rest}"))
            .unwrap();
    }

    fn kumade(&self, arguments: &[&str]) -> Command {
        let mut command = self.namespace.command(cargo_bin("kumade"));
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.directory).stderr(Stdio::null());
        command
    }

    fn start(&self) -> Child {
        self.kumade(&["monitor", "--config", self.file().to_str().unwrap()]).spawn().unwrap()
    }

    /// A token, and what the configuration is to have.
    fn token(&self, name: &str, class: &str) -> (String, String) {
        let file = self.directory.join(format!("{name}.token"));
        let arguments = ["key", "token", name, "--class", class, "--output", file.to_str().unwrap()];
        let printed = self.kumade(&arguments).output().unwrap();
        assert!(printed.status.success());
        let section = String::from_utf8(printed.stdout).unwrap();
        let token = fs::read_to_string(file).unwrap().trim().to_owned();
        assert!(!section.contains(&token), "the file has the hash alone");
        (token, section)
    }

    fn connect(&self, from: &str, to: &str) -> std::io::Result<TcpStream> {
        let (from, to): (SocketAddr, SocketAddr) = (format!("{from}:0").parse().unwrap(), to.parse().unwrap());
        let socket = self.namespace.run(|| Socket::new(Domain::for_address(to), Type::STREAM, None)).unwrap()?;
        socket.bind(&from.into())?;
        socket.connect_timeout(&to.into(), TEST_DEADLINE)?;
        socket.set_read_timeout(Some(TEST_DEADLINE))?;
        Ok(socket.into())
    }

    fn ask(&self, request: &str, headers: &[&str], body: &str) -> Option<Answer> {
        ask(self.connect("127.0.0.1", PAGE).ok()?, request, headers, body)
    }

    fn status(&self, path: &str, headers: &[&str]) -> u16 {
        self.ask(&format!("GET {path}"), headers, "").map_or(0, |answer| answer.status)
    }

    fn document(&self, path: &str, headers: &[&str]) -> Value {
        let body = self.ask(&format!("GET {path}"), headers, "").map(|answer| answer.body).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    fn pair(&self, id: &str) -> Value {
        let pairs = self.document("/api/v1/status", &[])["pairs"].as_array().cloned().unwrap_or_default();
        pairs.into_iter().find(|pair| pair["id"] == id).unwrap_or_default()
    }

    fn events(&self, headers: &[&str]) -> String {
        self.document("/api/v1/events", headers)["events"].to_string()
    }

    /// The cookie by which the browser is known.
    fn log_in(&self, token: &str) -> Result<String, Answer> {
        let form = ["Content-Type: application/x-www-form-urlencoded"];
        let answer = self.ask("POST /pair/one?last=7d", &form, &format!("token={token}")).unwrap();
        if answer.status != 303 {
            return Err(answer);
        }
        assert!(answer.has_header("location: /pair/one?last=7d"), "{}", answer.head);
        let cookie = answer.header("set-cookie: ").unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict") && !cookie.contains(token), "{cookie}");
        Ok(format!("Cookie: {}", cookie.split(';').next().unwrap()))
    }
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.get(..name.len())?.eq_ignore_ascii_case(name).then(|| &line[name.len()..]))
    }

    fn has_header(&self, line: &str) -> bool {
        self.header(line).is_some()
    }
}

fn ask(mut stream: impl Read + Write, request: &str, headers: &[&str], body: &str) -> Option<Answer> {
    let host = if headers.iter().any(|header| header.starts_with("Host:")) { "" } else { "Host: localhost:7280\r\n" };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let text =
        format!("{request} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // Over TLS, the end may come without a word; what came before counts.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

fn end(mut child: Child) {
    send(&child, Signal::SIGTERM);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn a_reload_changes_targets_and_what_stays_is_not_interrupted() {
    in_namespaces("a_reload_changes_targets_and_what_stays_is_not_interrupted", || {
        let hosts = VethHosts::new(1500).unwrap();
        run_ip(&hosts.middle, &["link", "add", "bridge", "type", "bridge"]).unwrap();
        for port in VethHosts::MIDDLE_INTERFACES {
            run_ip(&hosts.middle, &["link", "set", port, "master", "bridge"]).unwrap();
        }
        run_ip(&hosts.middle, &["link", "set", "bridge", "up"]).unwrap();
        let VethHosts { left, right, .. } = hosts;
        let site = Site::new("monitor_reload", left);
        let measured = |name: &str| {
            format!(
                "[[target]]\nhost = \"10.79.0.2\"\nid = \"measured\"\nname = \"{name}\"\ninterval = \"100ms\"\nmeasure = \"1min\"\n"
            )
        };
        let other = |id: &str| format!("[[target]]\nhost = \"127.0.0.1\"\nid = \"{id}\"\ninterval = \"100ms\"\n");
        let mut server = right.command(cargo_bin("kumade"));
        let server = server.arg("serve").env("XDG_RUNTIME_DIR", &site.directory).stderr(Stdio::null()).spawn().unwrap();
        site.write("", &[measured("Far"), other("stays"), other("goes")].concat());
        let monitor = site.start();
        let schedule = || site.document("/api/v1/status", &[])["schedule"]["runs"].to_string();
        assert!(eventually(|| schedule().contains("\"is_running\":true")), "{}", schedule());
        assert!(eventually(
            || site.pair("goes")["state"]["word"] == "up" && site.pair("stays")["state"]["word"] == "up"
        ));
        let echo_alone = [(CAP_NET_RAW, "2".to_owned())].into();
        assert!(eventually(|| privileges::of(monitor.id()) == echo_alone), "{:?}", privileges::of(monitor.id()));
        let seen = || site.pair("stays")["loss"]["sent"].as_u64().unwrap_or_default();
        let before = seen();
        let time = site.document("/api/v1/status", &[])["time_seconds"].as_f64().unwrap();

        site.write("", &[other("comes"), measured("Far away"), other("stays")].concat());
        send(&monitor, Signal::SIGHUP);
        assert!(eventually(|| site.pair("comes")["state"]["word"] == "up"));
        assert_eq!((&site.pair("measured")["name"], &site.pair("goes")), (&"Far away".into(), &Value::Null));
        assert!(seen() >= before, "what was seen is known");
        // The measurement that ran came to its end: it has a value, or a reason that is not that it was ended.
        assert!(eventually(|| site.pair("measured")["run"]["id"].is_number()), "{}", site.pair("measured"));
        let run = site.pair("measured")["run"].clone();
        assert!(run["up"]["value"].is_number() || run["up"]["reason"].is_string(), "{run}");
        for change in ["target goes: no longer monitored", "target comes: monitored", "target measured: other name"] {
            let is_told = || site.events(&[]).contains(&format!("changed: {change}"));
            assert!(eventually(is_told), "{change}: {}", site.events(&[]));
        }

        // Whatever cannot be is told of, and changes nothing.
        let good = fs::read_to_string(site.file()).unwrap();
        for (bad, reason) in [
            (format!("{good}hots = 1\n"), "unknown field `hots`"),
            (good.replace("archive\"", "elsewhere\""), "`archive` in [monitor] cannot change"),
            (good.replace("1min", "30s") + &other("busy") + "measure = \"30s\"\n", "times as long"),
        ] {
            fs::write(site.file(), bad).unwrap();
            send(&monitor, Signal::SIGHUP);
            assert!(eventually(|| site.events(&[]).contains(reason)), "{reason}: {}", site.events(&[]));
            assert!(site.events(&[]).contains("the configuration stays as it was"));
            assert!(seen() >= before && site.pair("busy").is_null() && site.pair("comes").is_object());
        }

        // One that comes back has its history, and a gap.
        let series = |id: &str| site.document(&format!("/api/v1/pairs/{id}/series"), &[]);
        fs::write(site.file(), good + &other("goes")).unwrap();
        send(&monitor, Signal::SIGHUP);
        let cause = || series("goes")["gaps"].to_string();
        assert!(eventually(|| cause().contains("it was not in the configuration")), "{}", cause());
        let gaps = series("goes")["gaps"].clone();
        assert!(
            gaps.as_array().is_some_and(|gaps| gaps.len() == 1) && gaps[0]["from_seconds"].as_f64() > Some(time),
            "{gaps}"
        );
        assert_eq!(series("stays")["gaps"].as_array().map(Vec::len), Some(0));
        end(monitor);
        end(server);
    });
}

#[test]
fn idle_connections_of_one_network_keep_no_visitor_of_another_out() {
    in_namespaces("idle_connections_of_one_network_keep_no_visitor_of_another_out", || {
        let site = Site::new("monitor_idle", Namespace::new().unwrap());
        site.write("", TARGET);
        let monitor = site.start();
        assert!(eventually(|| site.status("/", &[]) == 200));
        // A stream that an honest visitor has had before: of what is new, or that nothing is.
        let follow = || {
            let mut stream = site.connect("127.0.2.1", PAGE).unwrap();
            stream.write_all(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let is_told = |line: &String| line.starts_with("data:") || line == ":";
            BufReader::new(stream).lines().map_while(Result::ok).filter(is_told)
        };
        let mut news = follow();
        // As long as much is new, it ends, and is to be asked for again.
        assert!(eventually(|| {
            let is_followed = news.next().is_some_and(|line| line != "data: {}");
            if !is_followed {
                news = follow();
            }
            is_followed
        }));
        let mut idle: Vec<_> = (0..700).map(|_| site.connect("127.0.1.1", PAGE).unwrap()).collect();
        let visitor = site.connect("127.0.3.1", PAGE).unwrap();
        assert_eq!(ask(visitor, "GET /api/v1/status", &[], "").unwrap().status, 200);
        assert!(news.next().is_some() && news.next().is_some(), "it goes on");
        // Those that stayed are not waited for, either.
        let mut rest = Vec::new();
        assert!(idle.pop().unwrap().read_to_end(&mut rest).is_ok(), "it is closed");
        end(monitor);
    });
}

#[test]
fn who_has_no_token_sees_nothing_and_each_sees_what_its_class_allows() {
    in_namespaces("who_has_no_token_sees_nothing_and_each_sees_what_its_class_allows", || {
        let site = Site::new("monitor_tokens", Namespace::new().unwrap());
        run_ip(&site.namespace, &["addr", "add", "10.99.0.1/32", "dev", "lo"]).unwrap();
        let [(reader, reads), (admin, administers)] =
            [("alice", "read"), ("root of all", "admin")].map(|(name, class)| site.token(name, class));
        let metrics = "prometheus = \"10.99.0.1:9274\"";
        site.write(metrics, &[TARGET, &reads, &administers].concat());
        let monitor = site.start();
        assert!(eventually(|| site.status("/", &[]) == 401));
        let form = site.ask("GET /pair/one", &[], "").unwrap();
        assert!(
            form.body.contains("<form method=\"post\"") && form.has_header("www-authenticate: Bearer"),
            "{}",
            form.head
        );
        assert_eq!(site.status("/assets/style.css", &[]), 200, "the form has its style");
        for path in
            ["status", "stream", "events", "audit", "visitor", "pairs/one/series", "pairs/one/runs", "runs/1", "no"]
        {
            assert_eq!(site.status(&format!("/api/v1/{path}"), &[]), 401, "{path}");
        }

        // Browsers.
        let cookie = site.log_in(&reader).ok().unwrap();
        assert_eq!((site.status("/", &[&cookie]), site.status("/api/v1/status", &[&cookie])), (200, 200));
        let visitor = site.document("/api/v1/visitor", &[&cookie]);
        assert_eq!((&visitor["name"], &visitor["class"]), (&"alice".into(), &"read".into()));
        assert_eq!(site.status("/api/v1/audit", &[&cookie]), 403);
        let foreign = ["Origin: http://evil.example", &cookie];
        assert_eq!(site.ask("POST /logout", &foreign, "").unwrap().status, 403, "by a page of others");
        assert_eq!(site.status("/api/v1/status", &[&cookie]), 200);
        assert_eq!(site.ask("POST /logout", &[&cookie], "").unwrap().status, 303);
        assert_eq!(site.status("/api/v1/status", &[&cookie]), 401);
        let long = site.ask("POST /", &["Content-Type: application/x-www-form-urlencoded"], &"x".repeat(100_000));
        assert!(long.is_none_or(|answer| answer.status == 413), "no more than a form is read");

        // Programs, also those that fetch metrics.
        assert_eq!(site.status("/api/v1/status", &[&bearer(&reader)]), 200);
        let fetch = |headers: &[&str]| {
            let stream = site.connect("10.99.0.1", "10.99.0.1:9274").unwrap();
            ask(stream, "GET /metrics", headers, "").unwrap().status
        };
        assert_eq!((fetch(&[]), fetch(&[&bearer(&reader)])), (401, 200));

        // Who guesses, in vain.
        let guesses: Vec<_> = (0..20).map(|_| site.log_in("guess").err().unwrap().status).collect();
        assert!(guesses[0] == 401 && guesses[19] == 429, "{guesses:?}");
        let audit = || {
            let stream = site.connect("127.0.9.1", PAGE).unwrap();
            ask(stream, "GET /api/v1/audit", &[&bearer(&admin)], "").unwrap().body
        };
        for entry in ["\"alice\",\"what\":\"logged in from 127.0.0.1", "logged out", "gave a token that is not known"] {
            assert!(eventually(|| audit().contains(entry)), "{entry}: {}", audit());
        }

        // A token that is taken away.
        site.write(metrics, &[TARGET, &administers].concat());
        send(&monitor, Signal::SIGHUP);
        assert!(eventually(|| audit().contains("token alice: no longer valid")), "{}", audit());
        // It is told of a moment before.
        let is_refused = || {
            let stream = site.connect("127.0.8.1", PAGE).unwrap();
            ask(stream, "GET /api/v1/status", &[&bearer(&reader)], "").is_some_and(|answer| answer.status == 401)
        };
        assert!(eventually(is_refused));

        // Everybody may see it, but not who has done what; by the names that it has.
        site.write(metrics, &[TARGET, &administers, "[access]\npublic = true\nnames = [\"paths.example\"]\n"].concat());
        send(&monitor, Signal::SIGHUP);
        assert!(eventually(|| site.status("/api/v1/status", &[]) == 200));
        assert_eq!((site.status("/api/v1/audit", &[]), fetch(&[])), (403, 200));
        assert_eq!(site.document("/api/v1/visitor", &[])["may_log_in"], true);
        assert!(site.ask("GET /login", &[], "").unwrap().body.contains("<form method=\"post\""));
        let named = |name: &str| site.status("/", &[&format!("Host: {name}")]);
        assert_eq!((named("paths.example:7280"), named("rebound.example")), (200, 421));
        end(monitor);
    });
}

#[test]
fn a_page_for_others_takes_a_word_on_who_may_see_it() {
    let directory = std::env::temp_dir().join(format!("kumade-monitor_open-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join("monitor.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let output = Command::new(cargo_bin("kumade")).args(["monitor", "check"]).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    for key in ["page", "prometheus"] {
        let open = format!("[monitor]\n{key} = \"0.0.0.0:7280\"\n{TARGET}");
        let (status, text) = check(&open);
        assert!(status == Some(2) && text.contains("monitor.toml:2: everybody who reaches 0.0.0.0:7280"), "{text}");
        assert!(text.contains("kumade key token NAME"), "{text}");
        let started = Command::new(cargo_bin("kumade")).args(["monitor", "--config"]).arg(&file).output().unwrap();
        assert_eq!(started.status.code(), Some(2), "nor does it start");
        let (status, text) = check(&format!("{open}[access]\npublic = true\n"));
        assert!(status == Some(0) && text.contains("for everybody to read"), "{text}");
    }
    let (status, text) =
        check(&format!("{TARGET}[[access.token]]\nname = \"a\"\nclass = \"read\"\nhash = \"sha256:12\"\n"));
    assert!(status == Some(2) && text.contains("kumade key token"), "{text}");
    fs::remove_dir_all(&directory).unwrap();
}

/// For localhost, in PEM: the certificate in the first file, its key in the second.
fn write_certificate(certificate: &Path, key: &Path) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(certificate, made.cert.pem()).unwrap();
}

#[test]
fn the_page_is_encrypted_and_a_renewed_certificate_is_taken_without_a_restart() {
    in_namespaces("the_page_is_encrypted_and_a_renewed_certificate_is_taken_without_a_restart", || {
        let site = Site::new("monitor_tls", Namespace::new().unwrap());
        let [certificate, key] = ["page.crt", "page.key"].map(|name| site.directory.join(name));
        write_certificate(&certificate, &key);
        let (token, section) = site.token("alice", "admin");
        site.write("", &format!("{TARGET}{section}[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n"));
        let monitor = site.start();
        let ask_trusting = |trusted: &Path, request: &str, headers: &[&str], body: &str| {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(trusted).ok()?).ok()?;
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
            let config = config.with_root_certificates(roots).with_no_client_auth();
            let client = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).ok()?;
            ask(StreamOwned::new(client, site.connect("127.0.0.1", PAGE).ok()?), request, headers, body)
        };
        let (first, token) = (site.directory.join("first.crt"), bearer(&token));
        fs::copy(&certificate, &first).unwrap();
        let status =
            |trusted: &Path| ask_trusting(trusted, "GET /api/v1/status", &[&token], "").map(|answer| answer.status);
        assert!(eventually(|| status(&first) == Some(200)));
        assert!(site.ask("GET /", &[], "").is_none(), "nothing is said in the clear");
        let login = format!("token={}", token.rsplit(' ').next().unwrap());
        let form = ["Content-Type: application/x-www-form-urlencoded"];
        let answer = ask_trusting(&first, "POST /", &form, &login).unwrap();
        let is_own = |cookie: &str| {
            cookie.starts_with("__Host-kumade-monitor-7280=")
                && cookie.contains("; Path=/;")
                && cookie.ends_with("; Secure")
        };
        let cookie = answer.header("set-cookie: ").filter(|cookie| is_own(cookie));
        let cookie = cookie.unwrap_or_else(|| panic!("{}", answer.head)).split(';').next().unwrap();
        let known = |name: &str| {
            let cookie = format!("Cookie: {name}");
            ask_trusting(&first, "GET /api/v1/status", &[&cookie], "").unwrap().status
        };
        // One that was said in the clear, or by another host of the domain, is none.
        assert_eq!((known(cookie), known(cookie.trim_start_matches("__Host-"))), (200, 401));

        // A network that begins more handshakes than a hundred at once, and a hundred a second, is turned away; others are not.
        let start = Instant::now();
        let begun: Vec<_> = (0..400).map(|_| site.connect("127.0.1.1", PAGE).unwrap()).collect();
        let turned_away = || {
            let is_closed = |stream: &&TcpStream| {
                stream.set_nonblocking(true).unwrap();
                let read = stream.peek(&mut [0]);
                read.as_ref().map_or_else(|error| error.kind() != ErrorKind::WouldBlock, |count| *count == 0)
            };
            begun.iter().filter(is_closed).count()
        };
        // On a machine that is slower than that there are not so many. Silent ones are left after 15 s in any case.
        let is_fast = start.elapsed() < Duration::from_secs(2);
        while is_fast && turned_away() == 0 {
            assert!(start.elapsed() < Duration::from_secs(12), "none of them");
        }
        assert_eq!(status(&first), Some(200));

        // A file that is broken for a while changes nothing, and is told of.
        fs::write(&certificate, "nothing").unwrap();
        let events = || ask_trusting(&first, "GET /api/v1/events", &[&token], "").map(|answer| answer.body);
        let is_told = || events().is_some_and(|events| events.contains("the certificate stays as it was"));
        assert!(eventually(is_told), "{:?}", events());
        write_certificate(&certificate, &key);
        assert!(eventually(|| status(&certificate) == Some(200)));
        assert_eq!(status(&first), None);
        end(monitor);
    });
}
