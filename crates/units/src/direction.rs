use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From this host, or the left, to the far end, or the right.
    Up,
    /// The other way.
    Down,
}

impl Direction {
    /// Both, up first.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The opposite one.
    pub fn reversed(self) -> Self {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

impl fmt::Display for Direction {
    /// `up` or `down`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Up => "up",
            Direction::Down => "down",
        })
    }
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Direction::BOTH.into_iter().find(|direction| direction.to_string() == text);
        found.ok_or_else(|| "choose one of up, down".to_owned())
    }
}
