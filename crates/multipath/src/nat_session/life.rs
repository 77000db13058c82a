use kumade_units::{Span, Time};
use std::num::NonZeroU32;

/// The number of one life of a gateway's process, drawn at random.
pub type Life = NonZeroU32;

/// Which life of the far end there is, as its messages tell.
#[derive(Debug, Default)]
pub(super) struct FarLife {
    current: Option<Life>,
    /// The one before, and until when its messages may be left in the network.
    previous: Option<(Life, Time)>,
}

/// How long messages of an earlier life may be under way.
const MAX_DELAY: Span = Span::from_secs(10);

/// What a message's life tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LifeChange {
    Same,
    /// It is the first one that this gateway meets.
    First,
    /// The far end has restarted.
    Restarted,
    /// The message was sent before that.
    Stale,
}

impl FarLife {
    pub(super) fn learn(&mut self, life: Life, now: Time) -> LifeChange {
        if self.current == Some(life) {
            return LifeChange::Same;
        }
        if self.previous.is_some_and(|(previous, until)| previous == life && now < until) {
            return LifeChange::Stale;
        }
        self.previous = self.current.replace(life).map(|previous| (previous, now + MAX_DELAY));
        if self.previous.is_some() { LifeChange::Restarted } else { LifeChange::First }
    }
}
