use crate::store::ReadStore;
use crate::{ArchiveError, PairId};
use kumade_sketch::Layer;
use kumade_units::{Span, Time};

/// How far a layer is put together: blocks of lower numbers, and of this number the pairs up to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) number: i64,
    pub(crate) pair: Option<PairId>,
}

/// What was done when.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    closed: [Option<Cursor>; 2],
    pub(crate) checkpoint: Option<Time>,
    pub(crate) retention: Option<Time>,
    pub(crate) resume: Option<Time>,
}

impl Schedule {
    pub(crate) fn load(store: &mut impl ReadStore) -> Result<Self, ArchiveError> {
        let mut schedule = Schedule::default();
        for layer in [Layer::Hours, Layer::Days] {
            let stored = store.state(cursor_key(layer))?;
            schedule.closed[cursor_place(layer)] = stored.and_then(|bytes| Cursor::decode(&bytes));
        }
        Ok(schedule)
    }

    pub(crate) fn cursor(&self, layer: Layer) -> Option<Cursor> {
        self.closed[cursor_place(layer)]
    }

    /// Whether a pair's block was put together, so that what comes later belongs there, too.
    pub(crate) fn set_cursor(&mut self, layer: Layer, cursor: Cursor) {
        self.closed[cursor_place(layer)] = Some(cursor);
    }

    pub(crate) fn is_closed(&self, layer: Layer, number: i64, pair: PairId) -> bool {
        self.cursor(layer).is_some_and(|cursor| {
            number < cursor.number || number == cursor.number && cursor.pair.is_some_and(|last| pair <= last)
        })
    }
}

impl Cursor {
    pub(crate) fn encode(self) -> Vec<u8> {
        let pair = self.pair.map_or(0, |pair| i64::from(pair.0) + 1);
        [self.number.to_le_bytes(), pair.to_le_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let pair = i64::from_le_bytes(rest.try_into().ok()?);
        let pair = (pair > 0).then(|| u32::try_from(pair - 1).ok().map(PairId)).flatten();
        Some(Cursor { number: i64::from_le_bytes(*number), pair })
    }
}

/// Whether an interval has passed; or the clock was set back.
pub(crate) fn is_due(last: Option<Time>, interval: Span, now: Time) -> bool {
    last.is_none_or(|last| !(Span::ZERO..interval).contains(&(now - last)))
}

fn cursor_place(layer: Layer) -> usize {
    usize::from(layer == Layer::Days)
}

/// By which key a layer's cursor is kept.
pub(crate) fn cursor_key(layer: Layer) -> &'static str {
    match layer {
        Layer::Days => "archive/closed-days",
        _ => "archive/closed-hours",
    }
}
