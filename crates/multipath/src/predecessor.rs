use crate::path::id::PathId;

/// For one path, the last datagram with a packet of the same bucket that was assigned to it earlier: the path's number
/// and the lowest 28 bits of the datagram's counter on that path.
///
/// These are what tells the receiver which paths may still deliver what is missing before a packet; see
/// [`Resequencer`](crate::Resequencer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Predecessor(u32);

const COUNTER_BITS: u32 = 28;
const COUNTER_MASK: u32 = (1 << COUNTER_BITS) - 1;

impl Predecessor {
    /// How far counters may lie apart at most for the lowest bits to tell one from the other.
    pub(crate) const MAX_COUNTER_DISTANCE: u64 = 1 << (COUNTER_BITS - 1);

    /// The datagram with this counter on this path.
    pub const fn new(path: PathId, counter: u64) -> Self {
        Predecessor((path.number() as u32) << COUNTER_BITS | counter as u32 & COUNTER_MASK)
    }

    /// As it stands in a message; any 32 bits are one.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Predecessor(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The path that the datagram was sent over.
    pub const fn path(self) -> PathId {
        // Four bits are below the number of paths.
        PathId::from_low_bits((self.0 >> COUNTER_BITS) as u8)
    }

    /// The whole counter: of those with these lowest bits, that next to a counter known from the path. 0 stands for one
    /// that would be before the first.
    pub(crate) const fn counter_near(self, known: u64) -> u64 {
        let distance =
            (self.0 << (u32::BITS - COUNTER_BITS)).wrapping_sub((known as u32) << (u32::BITS - COUNTER_BITS));
        let distance = distance as i32 >> (u32::BITS - COUNTER_BITS);
        known.saturating_add_signed(distance as i64)
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
            distance in -(1i64 << 27)..1 << 27,
        ) {
            let path = PathId::new(number).unwrap();
            let counter = known.saturating_add_signed(distance);
            let predecessor = Predecessor::from_bits(Predecessor::new(path, counter).bits());
            prop_assert_eq!(predecessor.path(), path);
            prop_assert_eq!(predecessor.counter_near(known), counter);
        }
    }
}
