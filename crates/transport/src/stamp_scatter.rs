//! By how much the times scatter that a program reads for packets.

use kumade_net::clock;
use kumade_net::platform::pacing::Pacer;
use kumade_net::platform::readiness::wait_for_packet;
use kumade_net::platform::stamp;
use kumade_units::Span;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

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
    receiver.set_nonblocking(true)?;
    let pacer = Pacer::starting_in(PACKET_INTERVAL);
    let delay = |number: u32| {
        let offset = PACKET_INTERVAL * i64::from(number);
        pacer.wait_until(offset);
        let (planned, sent) = (pacer.instant_at(offset), number.to_be_bytes());
        sender.send(&sent)?;
        let mut received = [0; 4];
        while received != sent {
            if !wait_for_packet(&receiver, planned + MAX_STAMP_SCATTER)? {
                return Ok(MAX_STAMP_SCATTER);
            }
            receiver.recv(&mut received)?;
        }
        Ok((clock::monotonic() - planned).min(MAX_STAMP_SCATTER))
    };
    (1..=PACKETS).map(delay).collect()
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
        delays[7..14].fill(MAX_STAMP_SCATTER);
        assert_eq!(scatter(&delays), Span::ZERO);
        delays[14] = MAX_STAMP_SCATTER;
        assert_eq!(scatter(&delays), MAX_STAMP_SCATTER - Span::from_micros(20));
    }
}
