use crate::path::id::PathId;

/// For one path, the last datagram with a packet of the same bucket that was assigned to it earlier: the path and the
/// lowest 16 bits of the datagram's counter on that path.
///
/// These are what tells the receiver which paths may still deliver what is missing before a packet; see
/// [`Resequencer`](crate::Resequencer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor {
    path: PathId,
    lowest: u16,
}

impl Predecessor {
    /// How far counters may lie apart at most for the lowest bits to tell one from the other.
    pub(crate) const MAX_COUNTER_DISTANCE: u64 = 1 << (u16::BITS - 1);

    /// The datagram with this counter on this path.
    pub const fn new(path: PathId, counter: u64) -> Self {
        Predecessor { path, lowest: counter as u16 }
    }

    /// The datagram whose counter has these lowest bits.
    pub(crate) const fn from_lowest(path: PathId, lowest: u16) -> Self {
        Predecessor { path, lowest }
    }

    pub(crate) const fn lowest(self) -> u16 {
        self.lowest
    }

    /// The path that the datagram was sent over.
    pub const fn path(self) -> PathId {
        self.path
    }

    /// The whole counter: of those with these lowest bits, that next to a counter known from the path. 0 stands for one
    /// that would be before the first.
    pub(crate) const fn counter_near(self, known: u64) -> u64 {
        known.saturating_add_signed(self.lowest.wrapping_sub(known as u16) as i16 as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_whole_counter_comes_back_from_its_lowest_bits(
            number in 0u8..16,
            known in 0u64..1 << 56,
            distance in -(1i64 << 15)..1 << 15,
        ) {
            let path = PathId::new(number).unwrap();
            let counter = known.saturating_add_signed(distance);
            let predecessor = Predecessor::from_lowest(path, Predecessor::new(path, counter).lowest());
            prop_assert_eq!(predecessor.path(), path);
            prop_assert_eq!(predecessor.counter_near(known), counter);
        }
    }
}
