use kumade_net::SetupError;
use kumade_units::{Span, Time};
use std::error::Error;
use std::os::fd::BorrowedFd;

/// Why a turn begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// The instant has come that the last turn returned, or a packet is [ready](Shard::has_work). Also the first turn.
    Due,
    /// A file descriptor is readable or reports an error.
    Readable,
    /// Another thread has made a request, and no descriptor of the shard is known to be readable.
    Requested,
}

/// Which sources of a shard are ready, by their places among [`Shard::sources`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadySources {
    /// None where that is not known: the sources are others than before.
    pub(crate) places: Option<Vec<u32>>,
}

impl ReadySources {
    /// Whether the one at this place is, or may be.
    pub fn contains(&self, place: usize) -> bool {
        self.places.as_ref().is_none_or(|places| places.iter().any(|ready| *ready as usize == place))
    }

    /// Whether it is known that none but the one at this place is.
    pub(crate) fn is_only(&self, place: usize) -> bool {
        self.places.as_ref().is_some_and(|places| places.iter().all(|ready| *ready as usize == place))
    }
}

/// All that one packet thread owns, and its work. It is built by its thread and never leaves it, so it need not be `Send`.
/// When the loop ends, for whatever reason, it is dropped on that thread.
pub trait Shard: 'static {
    /// Why the loop cannot go on.
    type Error: Error + From<SetupError> + Send + 'static;

    /// How long before an instant the thread wakes up at most, to meet it exactly: it spins through the rest. How late a
    /// sleeping thread wakes up differs from machine to machine (30 µs at the median with the least timer slack on some), and
    /// the thread learns it, so as to spin no longer than it must to be more than 12 µs late for one of a hundred. Zero, for
    /// a shard that can wait for a few packets more, leaves the processor to others until then.
    const MAX_SPIN: Span = Span::from_micros(60);

    /// How long before an instant the thread wakes up at least. As long as [`MAX_SPIN`](Self::MAX_SPIN), it meets also those
    /// instants exactly before which it is woken unusually late, at the price of most of a processor.
    const MIN_SPIN: Span = Span::ZERO;

    /// The descriptors that end a wait when they become readable. Asked before the first turn, and again where they
    /// [have changed](Self::take_sources_change).
    fn sources(&self) -> Vec<BorrowedFd<'_>>;

    /// Whether it is told which sources [are ready](Self::record_ready). A turn that begins because its instant has come then costs a
    /// system call more, and none in vain for each source that is not ready.
    const FOLLOWS_READINESS: bool = false;

    /// Which [sources](Self::sources) have something to read or report an error; a turn begins, and tells nothing of those that
    /// [can wait](Self::deferrable_sources). Called before each turn of a shard that [follows it](Self::FOLLOWS_READINESS).
    fn record_ready(&mut self, _: &ReadySources) {}

    /// Whether there are other [sources](Self::sources) than when this was last asked. Asked before each turn.
    fn take_sources_change(&mut self) -> bool {
        false
    }

    /// Takes packets that have arrived, a bounded number of them, and hands on those that are due. Returns the instant
    /// ([`kumade_net::clock::monotonic`]) of the next turn at the latest; one that has passed begins the next turn at once.
    ///
    /// # Errors
    /// The loop ends with this error.
    fn process(&mut self, wake: WakeReason) -> Result<Time, Self::Error>;

    /// Whether a packet waits. Asked over and over in the last microseconds before a deadline, so it must not take a
    /// system call; where that cannot be told so cheaply, the descriptors serve.
    fn has_work(&self) -> bool {
        false
    }

    /// The [sources](Self::sources) whose packets can wait for the instant that the last turn returned, because none of
    /// them could be due earlier: a bit each, by their place among the first 64. They do not end the wait, which leaves the
    /// processor to others and has several packets taken in one turn.
    fn deferrable_sources(&self) -> u64 {
        0
    }
}
