//! What makes a page within a namespace reachable from outside: a listener that was opened before, and a connection inside for each that
//! comes.

use kumade_net::namespace::Namespace;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Connections at a time: some browsers with six each. Further ones are closed.
const MAX_CONNECTIONS: usize = 64;
/// Maximum time until a connection is noticed, or the end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Relays connections until dropped.
#[derive(Debug)]
pub(super) struct PageRelay {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PageRelay {
    /// From `listener` to an address that is reached from `inside`.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start(listener: TcpListener, inside: Namespace, to: SocketAddr) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let places = Arc::new(());
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((outside, _)) if Arc::strong_count(&places) <= MAX_CONNECTIONS => {
                        let place = Arc::clone(&places);
                        let relayed = inside.run(|| TcpStream::connect(to)).map_err(io::Error::other).flatten();
                        // A page that is not there yet, or not any more, closes the connection.
                        let _ = relayed.and_then(|inner| relay(outside, inner, place));
                    }
                    Ok(_) => {}
                    Err(_) => thread::sleep(POLL_INTERVAL),
                }
            }
        };
        let thread = thread::Builder::new().name("page-relay".into()).spawn(work)?;
        Ok(PageRelay { stop, thread: Some(thread) })
    }
}

impl Drop for PageRelay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic there has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Passes bytes on in both directions, on threads that end with either end.
fn relay(outside: TcpStream, inside: TcpStream, place: Arc<()>) -> io::Result<()> {
    // Of a listener that does not wait, neither do they.
    outside.set_nonblocking(false)?;
    let ends = [(outside.try_clone()?, inside.try_clone()?), (inside, outside)];
    for (mut from, mut to) in ends {
        let place = Arc::clone(&place);
        thread::Builder::new().name("page-relay".into()).spawn(move || {
            // However it ends, it has ended.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
            let _ = from.shutdown(Shutdown::Read);
            drop(place);
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_netns_testbed::in_namespaces;
    use std::io::{Read, Write};

    #[test]
    fn what_is_within_a_namespace_is_reached_from_outside() {
        in_namespaces("monitor_mesh::page_relay::tests::what_is_within_a_namespace_is_reached_from_outside", || {
            let inside = Namespace::new().unwrap();
            let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
            let page = inside.run(|| TcpListener::bind(loopback)).unwrap().unwrap();
            let listener = TcpListener::bind(loopback).unwrap();
            let address = listener.local_addr().unwrap();
            let relay = PageRelay::start(listener, inside, page.local_addr().unwrap()).unwrap();
            for _ in 0..3 {
                let mut visitor = TcpStream::connect(address).unwrap();
                visitor.write_all(b"to the page").unwrap();
                visitor.shutdown(Shutdown::Write).unwrap();
                let mut accepted = page.accept().unwrap().0;
                let mut text = String::new();
                accepted.read_to_string(&mut text).unwrap();
                assert_eq!(text, "to the page");
                accepted.write_all(b"from the page").unwrap();
                drop(accepted);
                text.clear();
                visitor.read_to_string(&mut text).unwrap();
                assert_eq!(text, "from the page");
            }
            drop(relay);
            assert!(TcpStream::connect(address).is_err(), "nothing listens any more");
        });
    }
}
