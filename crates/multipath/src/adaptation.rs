/// What is done so that paths that control their flow themselves carry other flows well. Each part can be left out, to see
/// what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptation {
    /// No more is open on a carrier than what it delivers in the round trip of the empty path and a little more; else as
    /// much as it takes.
    pub bounds_open: bool,
    /// Small packets of sparse flows go over two paths that are kept for these, where the choice is
    /// [`PathChoice::Available`](crate::PathChoice::Available).
    pub sparse_twice: bool,
    /// Data that a TCP connection inside repeats while the carriers still have it is not sent again.
    pub drops_repeated: bool,
    /// Of the datagrams that wait after an outage, the newest of each flow are sent: those that have waited too long are dropped.
    /// Segments are sent oldest first, for which the connection inside waits.
    pub drops_stale: bool,
}

impl Default for Adaptation {
    /// All of it.
    fn default() -> Self {
        Adaptation { bounds_open: true, sparse_twice: true, drops_repeated: true, drops_stale: true }
    }
}
