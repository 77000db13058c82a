use super::sender_state::{set_max_rto, set_min_rto};
use kumade_units::Span;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

/// Between which limits the retransmission timeout of connections stays (RFC 6298 §2.4, §2.5). By default, the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RtoLimits {
    /// The least one, where the kernel lets it be set, from 1 µs to 200 ms; the system's, if none.
    pub min: Option<Span>,
    /// The greatest one, where the kernel lets it be set, from 1 s to 120 s, but four round trips where these are longer; the
    /// system's, if none.
    pub max: Option<Span>,
}

impl RtoLimits {
    /// Sets them on a connection, on a socket that is to be one, or on a listener, whose connections inherit them.
    ///
    /// # Errors
    /// One is out of range.
    pub fn apply(&self, socket: &impl AsFd) -> io::Result<()> {
        if let Some(least) = self.min {
            set_min_rto(socket, least)?;
        }
        if let Some(most) = self.max {
            set_max_rto(socket, most)?;
        }
        Ok(())
    }

    /// How the greatest follows the round trips of one connection.
    pub fn connection_max_rto(&self) -> Option<AdaptiveMaxRto> {
        self.max.map(|least| AdaptiveMaxRto { min: least, current: least })
    }
}

/// The greatest retransmission timeout of a connection: a timeout that is shorter than the round trip repeats what is not lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveMaxRto {
    /// As it is to be with short round trips.
    min: Span,
    current: Span,
}

impl AdaptiveMaxRto {
    /// To be called now and then with the smoothed round-trip time.
    pub fn update(&mut self, stream: &TcpStream, round_trip: Span) {
        let wanted = max_rto(self.min, round_trip);
        let differs = wanted > self.current * 5 / 4 || wanted < self.current * 3 / 4;
        if differs && set_max_rto(stream, wanted).is_ok() {
            self.current = wanted;
        }
    }
}

/// The greatest retransmission timeout of a connection with that round trip, if it is to be `least` with short ones.
fn max_rto(least: Span, round_trip: Span) -> Span {
    const MAX_RTO_ROUND_TRIPS: i64 = 4;
    const MAX: Span = Span::from_secs(120);
    (round_trip * MAX_RTO_ROUND_TRIPS).clamp(least, MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option::{self, TcpInfo};
    use socket2::{Domain, Socket, Type};
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr};

    /// In microseconds.
    fn rto(stream: &TcpStream) -> u32 {
        option::read(stream, TcpInfo).unwrap().rto
    }

    #[test]
    fn both_ends_take_the_limits_before_they_connect() {
        let limits = RtoLimits { min: Some(Span::from_millis(20)), max: Some(Span::from_secs(1)) };
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let (listening, near) = (socket(), socket());
        listening.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        [&listening, &near].into_iter().for_each(|socket| limits.apply(socket).unwrap());
        listening.listen(1).unwrap();
        near.connect(&listening.local_addr().unwrap()).unwrap();
        let (near, mut far) = (TcpStream::from(near), TcpStream::from(listening.accept().unwrap().0));
        (&near).write_all(b"question").unwrap();
        far.read_exact(&mut [0; 8]).unwrap();
        far.write_all(b"answer").unwrap();
        (&near).read_exact(&mut [0; 6]).unwrap();
        if set_min_rto(&socket(), Span::from_millis(20)).unwrap() {
            // 200 ms and more by default.
            assert!(rto(&near) < 200_000 && rto(&far) < 200_000, "{} and {} µs", rto(&near), rto(&far));
        }
    }

    #[test]
    fn a_timeout_leaves_room_for_long_round_trips() {
        let one = Span::from_secs(1);
        assert_eq!(max_rto(one, Span::from_millis(20)), one);
        assert_eq!(max_rto(one, Span::from_millis(700)), Span::from_millis(2800));
        assert_eq!(max_rto(one, Span::from_secs(90)), Span::from_secs(120));
    }
}
