//! Chromium, by WebDriver (W3C).

use kumade_daemon::PrivateDirectory;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{TEST_DEADLINE, eventually};
use nix::unistd::{Gid, Uid, chown, geteuid};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const DRIVER_ADDRESS: (&str, u16) = ("127.0.0.1", 9515);
const DRIVER: &str = "chromedriver";
/// Chromium is no program for root.
const NOBODY: u32 = 65_534;
/// Keys by the code points of WebDriver.
const KEYS: [(&str, char); 8] = [
    ("Tab", '\u{e004}'),
    ("Enter", '\u{e007}'),
    ("End", '\u{e010}'),
    ("Home", '\u{e011}'),
    ("ArrowLeft", '\u{e012}'),
    ("ArrowUp", '\u{e013}'),
    ("ArrowRight", '\u{e014}'),
    ("ArrowDown", '\u{e015}'),
];

/// A browser with one window, until it is dropped.
pub(super) struct Browser {
    inside: Namespace,
    driver: Child,
    session: String,
    _home: PrivateDirectory,
}

impl Browser {
    /// Whether there is one; where there is none, that is said.
    pub(super) fn is_installed() -> bool {
        let is_installed = program(DRIVER).is_some() && program("chromium").is_some();
        if !is_installed {
            eprintln!("not tested: it takes Chromium and its driver (Debian: chromium, chromium-driver)");
        }
        is_installed
    }

    /// Starts it in this network namespace; none where it is not installed, which is said.
    pub(super) fn start(inside: &Namespace) -> Option<Self> {
        let driver = program(DRIVER).filter(|_| Browser::is_installed())?;
        let home = PrivateDirectory::new("kumade-browser").unwrap();
        // In a user namespace, nobody else is known.
        let may_change_user = geteuid().is_root() && chown(home.path(), user(), group()).is_ok();
        let setpriv = program("setpriv").filter(|_| may_change_user);
        let mut command = inside.command(setpriv.as_ref().unwrap_or(&driver));
        if setpriv.is_some() {
            command
                .arg(format!("--reuid={NOBODY}"))
                .arg(format!("--regid={NOBODY}"))
                .arg("--clear-groups")
                .arg(&driver);
        }
        command.arg(format!("--port={}", DRIVER_ADDRESS.1)).env("HOME", home.path()).env("TMPDIR", home.path());
        let driver = command.current_dir(home.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut browser = Browser { inside: inside.clone(), driver, session: String::new(), _home: home };
        assert!(eventually(|| browser.exchange("GET", "/status", &Value::Null).is_some()), "{DRIVER} does not answer");
        browser.begin_session();
        Some(browser)
    }

    fn begin_session(&mut self) {
        let profile = format!("--user-data-dir={}", self._home.path().join("profile").display());
        // The sandbox takes what containers lack; the only page that is seen is the own one.
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-GB"];
        let arguments: Vec<_> = arguments.into_iter().chain(["--window-size=1280,900", &profile]).collect();
        let logs = json!({"browser": "ALL", "performance": "ALL"});
        let capabilities = json!({"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": logs});
        let session = self.request("POST", "/session", &json!({"capabilities": {"alwaysMatch": capabilities}}));
        self.session = session["sessionId"].as_str().unwrap().to_owned();
    }

    pub(super) fn open(&self, url: &str) {
        self.command("POST", "url", &json!({"url": url}));
    }

    pub(super) fn back(&self) {
        self.command("POST", "back", &json!({}));
    }

    /// Runs a function's body in the page; what it returns.
    pub(super) fn run(&self, body: &str, arguments: &[Value]) -> Value {
        self.command("POST", "execute/sync", &json!({"script": body, "args": arguments}))
    }

    /// Of pages that are opened from now on: `window.notedTime` is when, in milliseconds since the beginning, what this says held first
    /// and had been painted.
    pub(super) fn note_time_of(&self, condition: &str) {
        let noting = format!(
            "new MutationObserver((_, self) => {{ if (!({condition})) return; self.disconnect(); requestAnimationFrame(() => \
             setTimeout(() => {{ window.notedTime = performance.now(); }})); }}).observe(document, {{ childList: true, subtree: true }});"
        );
        self.devtools("Page.addScriptToEvaluateOnNewDocument", json!({"source": noting}));
    }

    pub(super) fn press(&self, key: &str) {
        let (_, code) = KEYS.into_iter().find(|(name, _)| *name == key).unwrap();
        let actions = ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": code}));
        self.command("POST", "actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}));
    }

    /// Light or dark.
    pub(super) fn prefer(&self, scheme: &str) {
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
    }

    pub(super) fn resize(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub(super) fn open_tab(&self) {
        let tab = self.command("POST", "window/new", &json!({"type": "tab"}));
        self.switch_to(tab["handle"].as_str().unwrap());
    }

    pub(super) fn tabs(&self) -> Vec<String> {
        let tabs = self.command("GET", "window/handles", &Value::Null);
        tabs.as_array().unwrap().iter().map(|tab| tab.as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn switch_to(&self, tab: &str) {
        self.command("POST", "window", &json!({"handle": tab}));
    }

    pub(super) fn close_tab(&self) {
        self.command("DELETE", "window", &Value::Null);
    }

    /// What was written to the console since the last call.
    pub(super) fn console(&self) -> Vec<Value> {
        self.command("POST", "se/log", &json!({"type": "browser"})).as_array().unwrap().clone()
    }

    /// What has been asked for since the last call.
    pub(super) fn requests(&self) -> Vec<String> {
        let log = self.command("POST", "se/log", &json!({"type": "performance"}));
        let messages = log.as_array().unwrap().iter().filter_map(|entry| entry["message"].as_str());
        let messages = messages.filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let requests = messages.filter(|message| message["message"]["method"] == "Network.requestWillBeSent");
        let urls =
            requests.filter_map(|message| message["message"]["params"]["request"]["url"].as_str().map(str::to_owned));
        urls.filter(|url| !url.starts_with("data:") && !url.starts_with("chrome:")).collect()
    }

    /// A picture of the window (PNG).
    pub(super) fn screenshot(&self) -> Vec<u8> {
        decode_base64(self.command("GET", "screenshot", &Value::Null).as_str().unwrap())
    }

    fn devtools(&self, command: &str, parameters: Value) {
        self.command("POST", "goog/cdp/execute", &json!({"cmd": command, "params": parameters}));
    }

    fn command(&self, method: &str, command: &str, body: &Value) -> Value {
        self.request(method, &format!("/session/{}/{command}", self.session), body)
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.exchange(method, path, body).unwrap_or_else(|| panic!("{DRIVER} does not answer {path}"));
        assert!(answer["value"]["error"].is_null(), "{path} {body}: {}", answer["value"]);
        answer["value"].clone()
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let stream = self.inside.run(|| TcpStream::connect(DRIVER_ADDRESS)).unwrap().ok()?;
        stream.set_read_timeout(Some(TEST_DEADLINE)).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let head =
            format!("{head}Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n\r\n", body.len());
        (&stream).write_all((head + &body).as_bytes()).ok()?;
        let mut reader = BufReader::new(&stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.split_once(':') else {
                if line.trim().is_empty() { break } else { continue }
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser is a child of the driver.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        self.inside.kill_processes();
    }
}

fn user() -> Option<Uid> {
    Some(Uid::from_raw(NOBODY))
}

fn group() -> Option<Gid> {
    Some(Gid::from_raw(NOBODY))
}

fn program(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/local/bin"]
        .map(|directory| Path::new(directory).join(name))
        .into_iter()
        .find(|path| path.exists())
}

/// RFC 4648, without line breaks.
fn decode_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter_map(|byte| ALPHABET.iter().position(|digit| *digit == byte));
    let digits: Vec<_> = digits.collect();
    let group = |digits: &[usize]| {
        let bits = (0..4).fold(0, |bits, place| bits << 6 | digits.get(place).copied().unwrap_or(0));
        [16, 8, 0]
            .map(|shift| (bits >> shift) as u8)
            .into_iter()
            .take(digits.len().saturating_sub(1))
            .collect::<Vec<_>>()
    };
    digits.chunks(4).flat_map(group).collect()
}
