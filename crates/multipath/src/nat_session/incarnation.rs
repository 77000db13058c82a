use kumade_units::{Span, Time};
use std::num::NonZeroU32;

/// The number of one life of a gateway's process, drawn at random.
pub type Incarnation = NonZeroU32;

/// Which life of the far end there is, as its messages tell.
#[derive(Debug, Default)]
pub(super) struct PeerIncarnation {
    current: Option<Incarnation>,
    /// The one before, and until when its messages may be left in the network.
    previous: Option<(Incarnation, Time)>,
}

/// How long messages of an earlier life may be under way.
const MAX_MESSAGE_DELAY: Span = Span::from_secs(10);

/// What a message's life tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IncarnationChange {
    Same,
    /// It is the first one that this gateway meets.
    First,
    /// The far end has restarted.
    Restarted,
    /// The message was sent before that.
    Stale,
}

impl PeerIncarnation {
    pub(super) fn observe(&mut self, life: Incarnation, now: Time) -> IncarnationChange {
        if self.current == Some(life) {
            return IncarnationChange::Same;
        }
        if self.previous.is_some_and(|(previous, until)| previous == life && now < until) {
            return IncarnationChange::Stale;
        }
        self.previous = self.current.replace(life).map(|previous| (previous, now + MAX_MESSAGE_DELAY));
        if self.previous.is_some() { IncarnationChange::Restarted } else { IncarnationChange::First }
    }
}
