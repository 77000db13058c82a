//! By how much the times scatter that a program reads for packets.

use super::udp::{DatagramReceiver, is_packet_specific};
use crate::clock;
use kumade_units::{Span, Time};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

/// Packets, of which the tenths with the shortest and the longest delay don't count: some 50 ms on an idle host.
const PACKETS: usize = 100;
const PACKET_INTERVAL: Span = Span::from_micros(500);
/// A packet that takes longer is lost.
const MAX_DELAY: Span = Span::from_millis(50);

/// Sends packets over the loopback of this host, and returns by how much their delays differ, from the program's reading of the clock before it
/// sends to that after it has received.
///
/// # Errors
/// Where the system refuses sockets, or packets are lost.
pub fn loopback_scatter() -> io::Result<Span> {
    let (sender, receiver) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    sender.connect(receiver.local_addr()?)?;
    receiver.connect(sender.local_addr()?)?;
    receiver.set_nonblocking(true)?;
    let mut datagrams = DatagramReceiver::new(1);
    let pacer = crate::pacing::Pacer::starting_in(PACKET_INTERVAL);
    let mut delays = Vec::with_capacity(PACKETS);
    for number in 0..PACKETS {
        pacer.wait_until(PACKET_INTERVAL * number as i64);
        let sent = clock::monotonic();
        sender.send(&[0; 24])?;
        delays.push(receive_by(&mut datagrams, &receiver, sent + MAX_DELAY)? - sent);
    }
    delays.sort();
    Ok(delays[PACKETS - PACKETS / 10] - delays[PACKETS / 10])
}

fn receive_by(datagrams: &mut DatagramReceiver, socket: &UdpSocket, deadline: Time) -> io::Result<Time> {
    loop {
        match datagrams.receive(socket, |_, _| ()) {
            Ok(()) => return Ok(clock::monotonic()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && clock::monotonic() < deadline => {}
            Err(error) if is_packet_specific(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much it is, other programs decide.
    #[test]
    fn it_is_more_than_none() {
        assert!(loopback_scatter().is_ok_and(|scatter| scatter > Span::ZERO && scatter < MAX_DELAY));
    }
}
