//! A host that moves to another address, in the midst of a transfer, keeps its tunnel.

use crate::tunnel_ends;

use kumade_netns_testbed::{TEST_DEADLINE, VethHosts, eventually, in_namespaces, run_ip};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tunnel_ends::{Keys, end_with, hosts, lines, wait_for};

/// A connection through the tunnel on which a host sends without end.
struct Transfer {
    received: AtomicU64,
    ends: AtomicBool,
}

impl Transfer {
    /// Has `body` run meanwhile.
    fn during(hosts: &VethHosts, body: impl FnOnce(&Transfer)) {
        let transfer = Transfer { received: AtomicU64::new(0), ends: AtomicBool::new(false) };
        let listener = hosts.right.run(|| TcpListener::bind("10.77.0.2:9").unwrap()).unwrap();
        let mut sender = hosts.left.run(|| TcpStream::connect("10.77.0.2:9").unwrap()).unwrap();
        let mut receiver = listener.accept().unwrap().0;
        // A transfer that has stopped ends as well.
        sender.set_write_timeout(Some(MAX_STOP)).unwrap();
        receiver.set_read_timeout(Some(MAX_STOP)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| while sender.write_all(&[7; 1000]).is_ok() && !transfer.ends.load(Ordering::Relaxed) {});
            scope.spawn(|| {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(count @ 1..) = receiver.read(&mut bytes) {
                    transfer.received.fetch_add(count as u64, Ordering::Relaxed);
                    if transfer.ends.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            // Also where it fails: they would be waited for.
            let _end = EndOnDrop(&transfer);
            body(&transfer);
        });
    }

    /// Waits until so many bytes more have arrived.
    fn wait(&self, bytes: u64) {
        let wanted = self.received.load(Ordering::Relaxed) + bytes;
        assert!(eventually(|| self.received.load(Ordering::Relaxed) >= wanted), "the transfer has ended");
    }
}

struct EndOnDrop<'a>(&'a Transfer);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

/// Longer than any pause.
const MAX_STOP: Duration = TEST_DEADLINE;

/// Less than it takes until the kernel gives a connection up, 15 s and more, and far more than it takes on a machine with nothing
/// else to do, a second.
const MAX_PAUSE: Duration = Duration::from_secs(10);

fn keeps_its_tunnel(test: &str, carrier: &str) {
    in_namespaces(test, || {
        let (hosts, keys) = (hosts(), Keys::new(test));
        let end = |number: u8| {
            let address = format!("10.77.0.{number}/24");
            keys.end(&hosts, number, &["--address", &address, "--carrier", carrier]).spawn().unwrap()
        };
        let mut ends = [2, 1].map(end);
        ends.iter_mut().for_each(|end| drop(wait_for(&lines(end), ": connected")));
        Transfer::during(&hosts, |transfer| {
            let mut addresses = [1, 11, 12, 13, 14, 15, 16, 17, 18, 19].windows(2);
            // A busy machine may take long now and then.
            let mut to_another = |carry_on: &dyn Fn(u8, u8)| {
                let mut pause = Duration::MAX;
                for _ in 0..3 {
                    transfer.wait(5_000_000);
                    let Some(&[from, to]) = addresses.next() else { unreachable!("there are three for each") };
                    carry_on(from, to);
                    let moved = Instant::now();
                    // More than what may have been on its way.
                    transfer.wait(2_000_000);
                    pause = pause.min(moved.elapsed());
                    if pause < MAX_PAUSE {
                        return;
                    }
                }
                panic!("{pause:?} at least");
            };
            let at_left = |arguments: String| {
                let arguments: Vec<_> = arguments.split(' ').collect();
                run_ip(&hosts.left, &arguments).unwrap();
            };
            to_another(&|from, to| {
                at_left(format!("addr del 10.79.0.{from}/24 dev host"));
                at_left(format!("addr add 10.79.0.{to}/24 dev host"));
            });
            // For a while it is in no network.
            to_another(&|from, to| {
                at_left(format!("addr del 10.79.0.{from}/24 dev host"));
                thread::sleep(Duration::from_secs(1));
                at_left(format!("addr add 10.79.0.{to}/24 dev host"));
            });
            // It keeps its address in a network that leads nowhere any more.
            to_another(&|from, to| {
                at_left(format!("addr add 10.79.0.{to}/24 dev host"));
                at_left(format!("route change 10.79.0.0/24 dev host src 10.79.0.{to}"));
                at_left(format!("rule add from 10.79.0.{from} blackhole"));
            });
        });
        ends.iter_mut().for_each(|end| assert!(end_with(end, Signal::SIGTERM)));
    });
}

#[test]
fn a_host_that_moves_keeps_its_tunnel_over_one_connection() {
    keeps_its_tunnel("a_host_that_moves_keeps_its_tunnel_over_one_connection", "tcp");
}

#[test]
fn a_host_that_moves_keeps_its_tunnel_over_many_connections() {
    keeps_its_tunnel("a_host_that_moves_keeps_its_tunnel_over_many_connections", "rake");
}

#[test]
fn a_host_that_moves_keeps_its_tunnel_over_datagrams() {
    keeps_its_tunnel("a_host_that_moves_keeps_its_tunnel_over_datagrams", "udp");
}

#[test]
fn a_host_that_moves_keeps_its_tunnel_over_what_passes() {
    keeps_its_tunnel("a_host_that_moves_keeps_its_tunnel_over_what_passes", "auto");
}
