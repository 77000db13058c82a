use std::fmt;

/// One of the paths between two gateways, by the number that both know it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(u8);

impl PathId {
    /// How many paths there can be: numbers are below this.
    pub const MAX_PATHS: usize = 16;

    /// The path of this number; none from [`PathId::MAX_PATHS`] on.
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Self::MAX_PATHS { Some(PathId(number)) } else { None }
    }

    /// The path of the number in the lowest four bits.
    pub(crate) const fn from_low_bits(bits: u8) -> Self {
        PathId(bits % Self::MAX_PATHS as u8)
    }

    /// All paths that there can be.
    pub fn all() -> impl ExactSizeIterator<Item = PathId> {
        (0..Self::MAX_PATHS as u8).map(PathId)
    }

    /// Its number, for use as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its number, as sent.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {}", self.0)
    }
}
