//! A far end that is known by its name: all of its addresses are tried, and the name is looked up again when it has moved.

use crate::tunnel_ends;

use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::Duration;
use tunnel_ends::{Keys, end_with, hosts, lines, wait_for};

/// A far end whose first two addresses lead nowhere, and that has another one later.
fn is_found_by_its_name(test: &str, carrier: &str) {
    in_namespaces(test, || {
        let (hosts, keys) = (hosts(), Keys::new(test));
        let names = keys.file(1).with_file_name("hosts");
        fs::write(&names, "fd79::99 far.example\n10.79.0.99 far.example\n10.79.0.2 far.example\n").unwrap();
        let listen =
            || -> Child { keys.end(&hosts, 2, &["--address", "10.77.0.2/24", "--carrier", carrier]).spawn().unwrap() };
        let mut far = listen();
        wait_for(&lines(&mut far), "waiting at");
        // The names of this process are its own.
        let connect = keys.end(&hosts, 1, &["--address", "10.77.0.1/24", "--carrier", carrier]);
        let connect: Vec<_> = std::iter::once(connect.get_program()).chain(connect.get_args()).collect();
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let mut near = hosts.left.command("unshare");
        near.args(["--mount", "sh", "-c", script]).arg(&names).env("XDG_RUNTIME_DIR", names.parent().unwrap());
        near.args(
            connect.into_iter().map(|word| if word == "10.79.0.2:443" { "far.example:443".as_ref() } else { word }),
        );
        let mut near = near.stderr(Stdio::piped()).spawn().unwrap();
        wait_for(&lines(&mut near), ": connected");
        let has_passed = || {
            let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:9"));
            let Ok(Ok(listener)) = listener else { return false };
            let opened =
                hosts.left.run(|| TcpStream::connect_timeout(&"10.77.0.2:9".parse().unwrap(), Duration::from_secs(2)));
            // The near end answers for one that is relayed, which may come to nothing.
            let Ok(Ok(_opened)) = opened else { return false };
            let mut incoming = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
            poll(&mut incoming, 2000_u16).is_ok_and(|count| count > 0)
        };
        assert!(eventually(has_passed));
        assert!(end_with(&mut far, Signal::SIGTERM));
        run_ip(&hosts.right, &["addr", "del", "10.79.0.2/24", "dev", "host"]).unwrap();
        run_ip(&hosts.right, &["addr", "add", "10.79.0.3/24", "dev", "host"]).unwrap();
        fs::write(&names, "10.79.0.3 far.example\n").unwrap();
        let mut far = listen();
        drop(lines(&mut far));
        assert!(eventually(has_passed));
        [near, far].iter_mut().for_each(|end| assert!(end_with(end, Signal::SIGTERM)));
    });
}

#[test]
fn a_far_end_is_found_by_its_name_over_datagrams() {
    is_found_by_its_name("a_far_end_is_found_by_its_name_over_datagrams", "udp");
}

#[test]
fn a_far_end_is_found_by_its_name_over_connections() {
    is_found_by_its_name("a_far_end_is_found_by_its_name_over_connections", "rake");
}

#[test]
fn a_far_end_is_found_by_its_name_over_relayed_streams() {
    is_found_by_its_name("a_far_end_is_found_by_its_name_over_relayed_streams", "relay");
}
