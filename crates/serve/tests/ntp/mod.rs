//! A reference clock for tests.

use net::clock;
use probe::NtpServer;
use std::net::UdpSocket;
use std::time::Duration;
use units::Span;
use wire::stamp::ClockFormat;

/// An NTP server whose clock is so far ahead. It ends once nobody has asked for a while.
pub fn answer(ahead: Span) -> NtpServer {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    std::thread::spawn(move || {
        let mut packet = [0; 48];
        while let Ok((_, from)) = socket.recv_from(&mut packet) {
            let now = || ClockFormat::Ntp.write(clock::realtime() + ahead);
            packet.copy_within(40.., 24);
            packet[32..40].copy_from_slice(&now());
            (packet[0], packet[1]) = ((4 << 3) | 4, 1);
            packet[40..].copy_from_slice(&now());
            // Whoever asked may have gone.
            let _ = socket.send_to(&packet, from);
        }
    });
    NtpServer { host: "127.0.0.1".into(), port }
}
