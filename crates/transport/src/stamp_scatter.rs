//! By how much the times scatter that a program reads for packets.

use kumade_net::clock;
use kumade_net::platform::pacing::Pacer;
use kumade_net::platform::readiness::wait_readable;
use kumade_net::platform::stamp;
use kumade_net::platform::udp::{DatagramReceiver, is_packet_specific};
use kumade_units::{Span, Time};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;

/// As many as it takes for the tails below to be more than one packet: some 150 ms on an idle host.
const PACKETS: u32 = 100;
const PACKET_INTERVAL: Span = Span::from_micros(500);
/// Of so many packets, one comes after a pause for which the receiver does not spin, as the first one of a train does.
const PACKETS_PER_PAUSE: u32 = 10;
const PAUSE: Span = Span::from_millis(8);
/// A packet that takes longer is lost, and counts as if it had taken so long.
pub const MAX_STAMP_SCATTER: Span = Span::from_millis(50);
/// Of delays at either end that do not count, in thousandths: intervals of values are to hold with 95 % confidence.
const TAIL_PER_MILLE: usize = 25;

/// By how much the stamps scatter that packets have here: zero where the kernel stamps them. Elsewhere packets are sent over the loopback of this host
/// from one thread to another, which receives them as it receives trains: by how much their delays differ, from the program's reading of the clock
/// before it sends to that after it has received; [`MAX_STAMP_SCATTER`] at most.
///
/// # Errors
/// Where the system refuses sockets of the loopback.
pub fn measure_stamp_scatter() -> io::Result<Span> {
    if stamp::IS_TIME_OF_READING { Ok(scatter(&measure_delays()?)) } else { Ok(Span::ZERO) }
}

fn scatter(delays: &[Span]) -> Span {
    let mut delays = delays.to_vec();
    delays.sort();
    let tail = delays.len() * TAIL_PER_MILLE / 1000;
    delays.get(tail).map_or(MAX_STAMP_SCATTER, |least| delays[delays.len() - 1 - tail] - *least)
}

fn measure_delays() -> io::Result<Vec<Span>> {
    let (sender, receiver) = (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
    sender.connect(receiver.local_addr()?)?;
    receiver.connect(sender.local_addr()?)?;
    receiver.set_nonblocking(true)?;
    let pause = |number: u32| if number.is_multiple_of(PACKETS_PER_PAUSE) { PAUSE } else { Span::ZERO };
    let end = clock::monotonic()
        + (0..PACKETS).map(|number| PACKET_INTERVAL + pause(number)).fold(MAX_STAMP_SCATTER, |a, b| a + b);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receive_until(&receiver, end));
        let pacer = Pacer::starting_in(Span::ZERO);
        let (mut offset, mut sent) = (Span::ZERO, Vec::new());
        for number in 0..PACKETS {
            offset = offset + PACKET_INTERVAL + pause(number);
            pacer.wait_until(offset);
            sent.push(clock::monotonic());
            sender.send(&number.to_be_bytes())?;
        }
        let received = receiving.join().map_err(|_| io::Error::other("the receiver has failed"))??;
        let delay =
            |(sent, received): (Time, Option<Time>)| received.map_or(MAX_STAMP_SCATTER, |received| received - sent);
        Ok(sent.into_iter().zip(received).map(delay).collect())
    })
}

/// When each packet was read.
fn receive_until(socket: &UdpSocket, deadline: Time) -> io::Result<Vec<Option<Time>>> {
    let (mut datagrams, mut received) = (DatagramReceiver::new(4), vec![None; PACKETS as usize]);
    while received.contains(&None) && clock::monotonic() < deadline {
        let record = |packet: &[u8], _| {
            let number = packet.try_into().map_or(u32::MAX, u32::from_be_bytes);
            if let Some(time) = received.get_mut(number as usize) {
                *time = Some(clock::monotonic());
            }
        };
        match datagrams.receive(socket, record) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_readable(socket, deadline).map(drop)?,
            Err(error) if is_packet_specific(&error) => {}
            done => done?,
        }
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much it is, other programs decide.
    #[test]
    fn each_packet_counts_whether_it_comes_or_not() {
        assert_eq!(measure_delays().unwrap().len(), PACKETS as usize);
        let mut delays = vec![Span::from_micros(20); PACKETS as usize];
        assert_eq!(scatter(&delays), Span::ZERO);
        delays[7..9].fill(MAX_STAMP_SCATTER);
        assert_eq!(scatter(&delays), Span::ZERO);
        delays[9] = MAX_STAMP_SCATTER;
        assert_eq!(scatter(&delays), MAX_STAMP_SCATTER - Span::from_micros(20));
    }
}
