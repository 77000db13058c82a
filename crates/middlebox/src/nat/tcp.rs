use crate::action::Direction;
use kumade_packet::Tcp;

/// What a translator knows of a TCP connection, to choose its idle timeout (RFC 5382 §5, after the state machine of
/// RFC 6146 §3.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpState {
    /// The inside has sent, the outside has acknowledged nothing yet.
    Opening,
    /// Both ends have sent. With the directions in which a FIN has passed.
    Established {
        /// A FIN from the inside.
        fin_outbound: bool,
        /// A FIN from the outside.
        fin_inbound: bool,
    },
    /// A FIN has passed in both directions.
    Closing,
    /// A RST has passed. As it may be forged or ignored, any other segment establishes the connection again.
    Reset,
}

impl TcpState {
    /// The state after a segment.
    pub(crate) fn after_segment(self, direction: Direction, tcp: &Tcp) -> Self {
        let established = TcpState::Established { fin_outbound: false, fin_inbound: false };
        match self {
            TcpState::Closing | TcpState::Reset if tcp.is_connection_request() && direction == Direction::Outbound => {
                TcpState::Opening
            }
            TcpState::Closing => TcpState::Closing,
            _ if tcp.rst => TcpState::Reset,
            // A simultaneous open passes here, too: its SYNs cross, and the SYN+ACK from the outside establishes it.
            TcpState::Opening if direction == Direction::Inbound && tcp.acknowledgment.is_some() => {
                established.after_segment(direction, tcp)
            }
            TcpState::Opening => TcpState::Opening,
            TcpState::Reset if tcp.syn => TcpState::Reset,
            TcpState::Reset => established.after_segment(direction, tcp),
            TcpState::Established { fin_outbound, fin_inbound } => {
                let fin_outbound = fin_outbound || tcp.fin && direction == Direction::Outbound;
                let fin_inbound = fin_inbound || tcp.fin && direction == Direction::Inbound;
                match fin_outbound && fin_inbound {
                    true => TcpState::Closing,
                    false => TcpState::Established { fin_outbound, fin_inbound },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Direction::{Inbound, Outbound};

    const ESTABLISHED: TcpState = TcpState::Established { fin_outbound: false, fin_inbound: false };

    /// A segment with the flags named by `S`, `A`, `F` and `R`.
    fn segment(flags: &str) -> Tcp {
        Tcp {
            sequence: 1,
            acknowledgment: flags.contains('A').then_some(1),
            syn: flags.contains('S'),
            fin: flags.contains('F'),
            rst: flags.contains('R'),
            payload_len: 0,
        }
    }

    fn run(segments: &[(Direction, &str)]) -> TcpState {
        segments
            .iter()
            .fold(TcpState::Opening, |state, (direction, flags)| state.after_segment(*direction, &segment(flags)))
    }

    #[test]
    fn a_handshake_establishes_a_connection_and_both_fins_close_it() {
        assert_eq!(run(&[(Outbound, "S")]), TcpState::Opening);
        assert_eq!(run(&[(Outbound, "S"), (Inbound, "SA")]), ESTABLISHED);
        let half = TcpState::Established { fin_outbound: true, fin_inbound: false };
        assert_eq!(run(&[(Outbound, "S"), (Inbound, "SA"), (Outbound, "A"), (Outbound, "FA")]), half);
        assert_eq!(half.after_segment(Inbound, &segment("A")), half, "half closed, data may still arrive for hours");
        assert_eq!(half.after_segment(Inbound, &segment("FA")), TcpState::Closing);
        assert_eq!(TcpState::Closing.after_segment(Outbound, &segment("A")), TcpState::Closing);
    }

    #[test]
    fn a_simultaneous_open_and_one_from_the_outside_establish_a_connection() {
        // RFC 5382 REQ-2 a): "A NAT MUST handle the TCP simultaneous-open mode of connection initiation."
        assert_eq!(run(&[(Outbound, "S"), (Inbound, "S")]), TcpState::Opening);
        assert_eq!(run(&[(Outbound, "S"), (Inbound, "S"), (Outbound, "SA"), (Inbound, "SA")]), ESTABLISHED);
        assert_eq!(run(&[(Outbound, "SA"), (Inbound, "A")]), ESTABLISHED);
    }

    #[test]
    fn a_reset_shortens_the_timeout_only_until_the_connection_goes_on() {
        assert_eq!(run(&[(Outbound, "S"), (Inbound, "RA")]), TcpState::Reset, "refused");
        assert_eq!(ESTABLISHED.after_segment(Inbound, &segment("R")), TcpState::Reset);
        assert_eq!(TcpState::Reset.after_segment(Outbound, &segment("A")), ESTABLISHED);
        assert_eq!(TcpState::Reset.after_segment(Inbound, &segment("S")), TcpState::Reset);
        assert_eq!(TcpState::Reset.after_segment(Outbound, &segment("S")), TcpState::Opening, "a new connection");
        assert_eq!(TcpState::Closing.after_segment(Outbound, &segment("S")), TcpState::Opening);
    }
}
