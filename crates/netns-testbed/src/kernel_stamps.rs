use crate::namespaces::eventually;
use kumade_net::{clock, readiness, stamp};
use kumade_units::Span;
use std::net::UdpSocket;
use std::sync::OnceLock;

/// Switches the kernel's receive stamps on, and keeps them on until this process ends. Enabling them on a socket takes effect
/// some packets later, and for the whole host: a test that cannot do without the first packet's stamp calls this before.
///
/// # Panics
/// Where the kernel has no such stamps.
pub fn keep_receive_stamps_on() {
    static STAMP_KEEPER: OnceLock<UdpSocket> = OnceLock::new();
    STAMP_KEEPER.get_or_init(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a loopback socket");
        socket.connect(socket.local_addr().expect("its address")).expect("a connection to itself");
        stamp::enable_receive(&socket).expect("receive stamps");
        let is_stamped = || {
            socket.send(b"?").expect("a datagram to itself");
            let came = readiness::wait_readable(&socket, clock::monotonic() + Span::from_secs(10)).expect("a wait");
            came && stamp::receive(&socket, &mut [0]).is_ok_and(|received| received.stamp.is_some())
        };
        assert!(eventually(is_stamped), "the kernel stamps no packets");
        socket
    });
}
