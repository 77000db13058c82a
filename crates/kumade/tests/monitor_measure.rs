//! Measurements that somebody asks for on the page of `kumade monitor`.

use crate::mesh_hosts;

use kumade_netns_testbed::{eventually, in_namespaces};
use mesh_hosts::{AGENTS, COORDINATOR, Mesh, agent, end_with};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

struct Page(Mesh);

impl Page {
    /// A token, and its section of the configuration.
    fn token(&self, name: &str, class: &str) -> (String, String) {
        let file = self.0.file(&format!("{name}.token"));
        let arguments = ["key", "token", name, "--class", class, "--output", file.to_str().unwrap()];
        let printed = self.0.kumade(COORDINATOR, &arguments).output().unwrap();
        (fs::read_to_string(file).unwrap().trim().to_owned(), String::from_utf8(printed.stdout).unwrap())
    }

    /// The status of the answer, and its text.
    fn ask(&self, request: &str, token: &str, header: &str) -> (u16, String) {
        let fetch = || {
            let mut stream =
                self.0.hosts[COORDINATOR - 1].run(|| TcpStream::connect("127.0.0.1:7280")).unwrap().ok()?;
            let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n");
            stream.write_all(format!("{head}Authorization: Bearer {token}\r\n{header}\r\n").as_bytes()).ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            let (head, body) = text.split_once("\r\n\r\n")?;
            Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
        };
        fetch().unwrap_or_default()
    }

    fn document(&self, path: &str, token: &str) -> Value {
        serde_json::from_str(&self.ask(&format!("GET {path}"), token, "").1).unwrap_or_default()
    }

    /// The ids of the last measurements of all pairs that have one.
    fn last_runs(&self, token: &str) -> Vec<(String, i64)> {
        let status = self.document("/api/v1/status", token);
        let pairs = status["pairs"].as_array().cloned().unwrap_or_default();
        let run = |pair: &Value| Some((pair["id"].as_str()?.to_owned(), pair["run"]["id"].as_i64()?));
        pairs.iter().filter_map(run).collect()
    }
}

#[test]
fn a_path_is_measured_now_for_who_may_ask_for_it_and_it_is_known_who_has() {
    in_namespaces("a_path_is_measured_now_for_who_may_ask_for_it_and_it_is_known_who_has", || {
        let page = Page(Mesh::new("monitor_measure"));
        let [reader, writer, admin] = ["read", "write", "admin"].map(|class| page.token(&format!("{class} er"), class));
        let agents = AGENTS.map(|(number, id)| agent(number, id, &format!("address = \"10.80.0.{number}\"\n")));
        page.0.write_coordinator(&[agents.concat(), reader.1, writer.1, admin.1].concat());
        let file = fs::read_to_string(page.0.file("1.toml")).unwrap();
        page.0.write("1.toml", &file.replace("70s", "1h"));
        let [reader, writer, admin] = [reader.0, writer.0, admin.0];
        let mut programs: Vec<_> =
            [COORDINATOR].into_iter().chain(AGENTS.map(|(number, _)| number)).map(|host| page.0.start(host)).collect();
        // What was never measured is due at once, although the period is an hour.
        assert!(eventually(|| page.last_runs(&reader).len() == 3), "{}", page.0.logs());

        let before = page.last_runs(&reader);
        let (pair, run) = &before[0];
        let measure = format!("POST /api/v1/pairs/{}/measure", pair.replace(' ', "%20"));
        assert_eq!(page.ask(&measure, &reader, "").0, 403);
        assert_eq!(page.ask(&measure, "guess", "").0, 401);
        assert_eq!(page.ask(&measure, &writer, "Sec-Fetch-Site: cross-site\r\n").0, 403, "by a page of others");
        assert_eq!(page.ask("POST /api/v1/pairs/nobody:here/measure", &writer, "").0, 404);
        assert_eq!(page.ask(&measure.replace("POST", "GET"), &writer, "").0, 405);
        let (status, text) = page.ask(&measure, &writer, "");
        assert!(status == 202 && text.contains("measured"), "{status} {text}");
        let (status, text) = page.ask(&measure, &writer, "");
        assert!(status == 409 && (text.contains("now") || text.contains("already")), "{status} {text}");

        let is_new = || page.last_runs(&reader).iter().any(|(id, latest)| id == pair && latest != run);
        assert!(eventually(is_new), "{}", page.0.logs());
        let audit = page.document("/api/v1/audit", &admin)["entries"].to_string();
        assert!(audit.contains(&format!("asked for a measurement of {pair}")) && audit.contains("write er"), "{audit}");
        let events = page.document(&format!("/api/v1/events?pair={pair}"), &reader)["events"].to_string();
        assert!(events.contains("somebody has asked for a measurement"), "{events}");
        programs.iter_mut().for_each(|program| end_with(program, Signal::SIGTERM));
    });
}
