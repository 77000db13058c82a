//! What passed, what was dropped and how late it was.

use link::DropCause;
use units::Span;

/// Takes note of each packet of one direction.
#[derive(Debug, Default)]
pub struct Recorder {}

/// What a [`Recorder`] has seen.
#[derive(Debug, Clone, Default)]
pub struct DirectionStatistics {}

impl Recorder {
    /// A packet of `size` IP bytes reached the link.
    pub fn offered(&mut self, _flow: u64, _size: u32) {}

    /// It was written to the other side, `sojourn` after its arrival and `lateness` after it was due.
    pub fn delivered(&mut self, _flow: u64, _size: u32, _sojourn: Span, _lateness: Span) {}

    /// It did not come out.
    pub fn dropped(&mut self, _flow: u64, _size: u32, _cause: DropCause) {}

    /// All so far.
    pub fn snapshot(&self) -> DirectionStatistics {
        DirectionStatistics {}
    }
}
