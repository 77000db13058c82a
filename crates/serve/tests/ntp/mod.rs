//! A reference clock for tests.

use net::clock;
use probe::NtpServer;
use std::net::UdpSocket;
use units::Span;
use wire::stamp::ClockFormat;

/// An NTP server whose clock is so far ahead; it answers a measurement's questions, then ends.
pub fn answer(ahead: Span) -> NtpServer {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut packet = [0; 48];
        for _ in 0..4 {
            let (_, from) = socket.recv_from(&mut packet).unwrap();
            let now = || ClockFormat::Ntp.write(clock::realtime() + ahead);
            packet.copy_within(40.., 24);
            packet[32..40].copy_from_slice(&now());
            (packet[0], packet[1]) = ((4 << 3) | 4, 1);
            packet[40..].copy_from_slice(&now());
            socket.send_to(&packet, from).unwrap();
        }
    });
    NtpServer { host: "127.0.0.1".into(), port }
}
