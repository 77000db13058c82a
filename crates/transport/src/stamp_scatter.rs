//! By how much the times scatter that a program reads for packets.

use kumade_net::clock;
use kumade_net::platform::pacing::Pacer;
use kumade_net::platform::stamp;
use kumade_net::platform::udp::{self, DatagramReceiver};
use kumade_units::Span;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

/// A number.
const PACKET_BYTES: usize = size_of::<u32>();
/// As many as it takes for the tails below to be several packets, and for other programs to come in between: 150 ms.
const PACKETS: u32 = 300;
const PACKET_INTERVAL: Span = Span::from_micros(500);
/// A packet that takes longer is lost, and counts as if it had taken so long.
pub const MAX_STAMP_SCATTER: Span = Span::from_millis(50);
/// Of delays at either end that do not count, in thousandths: intervals of values are to hold with 95 % confidence.
const TAIL_PER_MILLE: usize = 25;

/// By how much the stamps scatter that packets have here: zero where the kernel stamps them. Elsewhere this thread sends packets to itself over the
/// loopback, paced and looked for as those of trains: by how much it differs how long after the planned instant it has read one, [`MAX_STAMP_SCATTER`]
/// at most. Whatever keeps the thread from running makes that longer, as it would make later what comes from elsewhere meanwhile.
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
    delays_between(&sender, &receiver)
}

fn delays_between(sender: &UdpSocket, receiver: &UdpSocket) -> io::Result<Vec<Span>> {
    receiver.set_nonblocking(true)?;
    let pacer = Pacer::starting_in(PACKET_INTERVAL);
    let mut datagrams = DatagramReceiver::new(PACKET_BYTES + 1);
    let delay = |number: u32| {
        let offset = PACKET_INTERVAL * i64::from(number);
        pacer.wait_until(offset);
        let (planned, sent) = (pacer.instant_at(offset), number.to_be_bytes());
        // What is not sent does not arrive.
        sender.send(&sent).map(drop).or_else(pass_over)?;
        let end = planned + MAX_STAMP_SCATTER;
        while clock::monotonic() < end {
            let mut is_found = false;
            datagrams.receive(receiver, |received, _| is_found = received == sent).or_else(pass_over)?;
            if is_found {
                return Ok((clock::monotonic() - planned).min(MAX_STAMP_SCATTER));
            }
        }
        Ok(MAX_STAMP_SCATTER)
    };
    (1..=PACKETS).map(delay).collect()
}

/// Of errors, those that concern one packet: until they were connected, whoever is on this host could send something to these sockets.
fn pass_over(error: io::Error) -> io::Result<()> {
    let is_temporary = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    if is_temporary || udp::is_packet_specific(&error) { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram that was longer than those that are awaited ended the measurement on Windows, as did each error, and the most was taken.
    #[test]
    fn what_others_send_to_the_sockets_is_passed_over() {
        let [sender, receiver, other] = [(); 3].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        for bytes in [&[0; 4][..], &[7; 999], &[]] {
            other.send_to(bytes, receiver.local_addr().unwrap()).unwrap();
        }
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        receiver.connect(sender.local_addr().unwrap()).unwrap();
        let delays = delays_between(&sender, &receiver).unwrap();
        assert!(delays.len() == PACKETS as usize && delays.iter().any(|delay| *delay < MAX_STAMP_SCATTER));
        for (kind, is_passed) in [(io::ErrorKind::WouldBlock, true), (io::ErrorKind::ConnectionRefused, false)] {
            assert_eq!(pass_over(kind.into()).is_ok(), is_passed, "{kind}");
        }
    }

    /// How much it is, other programs decide.
    #[test]
    fn each_packet_counts_whether_it_comes_or_not() {
        assert_eq!(measure_delays().unwrap().len(), PACKETS as usize);
        let mut delays = vec![Span::from_micros(20); PACKETS as usize];
        assert_eq!(scatter(&delays), Span::ZERO);
        delays[7..14].fill(MAX_STAMP_SCATTER);
        assert_eq!(scatter(&delays), Span::ZERO);
        delays[14] = MAX_STAMP_SCATTER;
        assert_eq!(scatter(&delays), MAX_STAMP_SCATTER - Span::from_micros(20));
    }
}
