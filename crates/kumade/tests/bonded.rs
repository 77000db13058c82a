//! `kumade gateway` with the bonded plane, as people use it: two configuration files, two keys, two processes.

use net::interface;
use net::namespace::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testnet::{eventually, in_namespaces, ip};

/// A gateway in a namespace of its own. Left is 1, right is 2.
struct Site {
    namespace: Namespace,
    directory: PathBuf,
    number: u8,
}

impl Site {
    fn new(test: &str, number: u8) -> Self {
        let directory = std::env::temp_dir().join(format!("kumade-{test}-{number}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Site { namespace: Namespace::new().unwrap(), directory, number }
    }

    fn key(&self) -> String {
        let file = self.directory.join("gateway.key");
        let private = ["key", "private", "--output", file.to_str().unwrap()];
        assert!(program().args(private).status().unwrap().success());
        let public = program().args(["key", "public"]).stdin(fs::File::open(file).unwrap()).output().unwrap();
        String::from_utf8(public.stdout).unwrap().trim().to_owned()
    }

    fn write_config(&self, far_key: &str) {
        let (own, far) = (self.number, 3 - self.number);
        let key = self.directory.join("gateway.key");
        let path = |number: u8| format!("[[path]]\nname = \"path{number}\"\ninterface = \"path{number}\"\n");
        let text = format!(
            "[gateway]\nname = \"site{own}\"\nplane = \"bonded\"\n\
             [bonded]\nkey = \"{}\"\ndevice = \"tunnel\"\naddresses = [\"10.8.0.{own}/32\"]\n{}{}\
             [[remote]]\nname = \"site{far}\"\nnetworks = [\"10.8.0.{far}/32\"]\npublic-key = \"{far_key}\"\n\
             addresses = [\"10.9.1.{far}\", \"10.9.2.{far}\"]\n",
            key.display(),
            path(1),
            path(2)
        );
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.directory.join("site.toml")
    }

    /// Returns once the other site is connected.
    fn start(&self) -> Child {
        let mut command = self.namespace.command(assert_cmd::cargo::cargo_bin("kumade"));
        command.args([Path::new("gateway"), Path::new("--config"), &self.config()]);
        command.env("XDG_RUNTIME_DIR", &self.directory).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn program() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin("kumade"))
}

fn wait_until_connected(child: &mut Child) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with(": connected")), "it ended");
    // The rest is read, too, or the program would block or fail.
    std::thread::spawn(move || lines.for_each(drop));
}

fn has_device(site: &Site) -> bool {
    ip(&site.namespace, &["-o", "link"]).unwrap().contains("tunnel")
}

#[test]
fn two_sites_are_joined_until_one_ends() {
    in_namespaces("two_sites_are_joined_until_one_ends", || {
        let [left, right] = [1, 2].map(|number| Site::new("bonded", number));
        for path in ["path1", "path2"] {
            let far = right.namespace.path();
            ip(&left.namespace, &["link", "add", path, "type", "veth", "peer", "name", path, "netns", &far]).unwrap();
            for site in [&left, &right] {
                site.namespace.run(|| interface::up(path)).unwrap().unwrap();
                let address = format!("10.9.{}.{}/24", &path[4..], site.number);
                ip(&site.namespace, &["addr", "add", &address, "dev", path]).unwrap();
            }
        }
        let keys = [left.key(), right.key()];
        left.write_config(&keys[1]);
        right.write_config(&keys[0]);
        let check = left.namespace.command(assert_cmd::cargo::cargo_bin("kumade"));
        let checked = { check }.args(["gateway", "check", left.config().to_str().unwrap()]).output().unwrap();
        let said = String::from_utf8(checked.stdout).unwrap();
        assert!(said.contains(&keys[0]) && said.contains("ip route add 10.8.0.2/32 dev tunnel"), "{said}");

        let mut gateways = [&left, &right].map(Site::start);
        gateways.iter_mut().for_each(wait_until_connected);
        let socket = |site: &Site| {
            let socket =
                site.namespace.run(|| UdpSocket::bind((format!("10.8.0.{}", site.number), 9)).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            socket
        };
        let (near, far) = (socket(&left), socket(&right));
        let mut buffer = [0; 8];
        let arrives = || near.send_to(b"question", "10.8.0.2:9").is_ok() && far.recv(&mut buffer).is_ok();
        assert!(eventually(arrives));

        // By a signal that lets it clean up, and by one that does not.
        let signals = [Signal::SIGTERM, Signal::SIGKILL];
        for ((site, gateway), signal) in [&left, &right].into_iter().zip(&mut gateways).zip(signals) {
            assert!(has_device(site));
            // The child has not been waited for, so its number is its own.
            kill(Pid::from_raw(gateway.id().cast_signed()), signal).unwrap();
            assert_eq!(gateway.wait().unwrap().success(), signal == Signal::SIGTERM);
            assert!(eventually(|| !has_device(site)));
        }
    });
}
