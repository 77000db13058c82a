//! Stamps for tests that cannot do without.

use net::{clock, readiness, stamp};
use std::net::UdpSocket;
use std::sync::OnceLock;
use units::Span;

/// Enabling takes effect late, and for the whole host: one socket that keeps stamps on, until the tests have ended.
pub fn keep_on() {
    static KEEPER: OnceLock<UdpSocket> = OnceLock::new();
    KEEPER.get_or_init(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        stamp::enable_receive(&socket).unwrap();
        let is_stamped = || {
            socket.send(b"?").unwrap();
            readiness::readable(&socket, clock::monotonic() + Span::from_secs(10)).unwrap();
            stamp::receive(&socket, &mut [0]).unwrap().stamp.is_some()
        };
        assert!((0..10_000).any(|_| is_stamped()));
        socket
    });
}
