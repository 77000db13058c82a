use kumade_units::Time;

/// A minute.
pub const MINUTE_NANOS: i64 = 60_000_000_000;
/// An hour.
pub const HOUR_NANOS: i64 = 60 * MINUTE_NANOS;

/// How finely a block divides its time. Blocks begin at multiples of their length since 1970 (UTC), without a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// An hour of 60 minutes.
    Minutes,
    /// A day of 24 hours.
    Hours,
    /// 32 days: less is written again for each day than with years.
    Days,
}

impl Layer {
    /// From fine to coarse.
    pub const ALL: [Layer; 3] = [Layer::Minutes, Layer::Hours, Layer::Days];

    /// Number of parts in a block.
    pub const fn parts(self) -> usize {
        match self {
            Layer::Minutes => 60,
            Layer::Hours => 24,
            Layer::Days => 32,
        }
    }

    /// Length of a part in nanoseconds.
    pub const fn part_nanos(self) -> i64 {
        match self {
            Layer::Minutes => MINUTE_NANOS,
            Layer::Hours => HOUR_NANOS,
            Layer::Days => 24 * HOUR_NANOS,
        }
    }

    /// Length of a block in nanoseconds: of a part of the next layer.
    pub const fn block_nanos(self) -> i64 {
        self.part_nanos() * self.parts() as i64
    }

    /// The number of the block that holds a time, counted from 1970.
    pub const fn block_number(self, time: Time) -> i64 {
        time.as_nanos().div_euclid(self.block_nanos())
    }

    /// Which part of its block holds a time.
    pub const fn part_index(self, time: Time) -> usize {
        (time.as_nanos().rem_euclid(self.block_nanos()) / self.part_nanos()) as usize
    }

    /// When a block begins.
    pub const fn block_start(self, number: i64) -> Time {
        Time::from_nanos(number.saturating_mul(self.block_nanos()))
    }

    /// The next coarser one.
    pub const fn coarser(self) -> Option<Layer> {
        match self {
            Layer::Minutes => Some(Layer::Hours),
            Layer::Hours => Some(Layer::Days),
            Layer::Days => None,
        }
    }
}
