/// What is done so that paths that control their flow themselves carry other flows well. Each part can be left out, to see
/// what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOverTcpTuning {
    /// No more is open on a carrier than what it delivers in the round trip of the empty path and a little more; else as
    /// much as it takes.
    pub limits_in_flight: bool,
    /// Small packets of sparse flows go over two paths that are kept for these, where the choice is
    /// [`PathPolicy::LeastSent`](crate::PathPolicy::LeastSent).
    pub duplicates_sparse_flows: bool,
    /// Data that a TCP connection inside repeats while the carriers still have it is not sent again.
    pub drops_retransmissions: bool,
    /// Of the datagrams that wait after an outage, the newest of each flow are sent: those that have waited too long are dropped.
    /// Segments are sent oldest first, for which the connection inside waits.
    pub drops_stale_datagrams: bool,
}

impl Default for TcpOverTcpTuning {
    /// All of it.
    fn default() -> Self {
        TcpOverTcpTuning {
            limits_in_flight: true,
            duplicates_sparse_flows: true,
            drops_retransmissions: true,
            drops_stale_datagrams: true,
        }
    }
}
