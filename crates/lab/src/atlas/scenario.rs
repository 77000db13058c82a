use crate::accuracy::Transport;
use serde::Deserialize;
use sim::atlas::{PathKind, Seeds};

/// An experiment on paths of many kinds. It comes from a scenario file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq)]
pub struct PathAtlas {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The kinds of paths.
    pub kinds: Vec<PathKind>,
    /// What carries the trains: UDP, or many TCP connections.
    pub transports: Vec<Transport>,
    /// Paths of each kind.
    pub runs: u32,
    /// Which paths are drawn.
    pub seeds: SeedChoice,
}

/// Which seeds draw the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedChoice {
    /// Those that methods may be tuned with.
    Tuning,
    /// Those that methods are judged by.
    Judging,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtlasPoint {
    /// The kind of the path.
    pub kind: PathKind,
    /// Its number among the paths of its kind, from 0.
    pub number: u32,
    /// What carries the trains.
    pub transport: Transport,
}

impl PathAtlas {
    /// Every measurement in the order of the report.
    pub fn points(&self) -> Vec<AtlasPoint> {
        let of_kind = |kind| {
            self.transports
                .iter()
                .flat_map(move |&transport| (0..self.runs).map(move |number| AtlasPoint { kind, number, transport }))
        };
        self.kinds.iter().copied().flat_map(of_kind).collect()
    }
}

impl SeedChoice {
    /// The seeds.
    pub fn seeds(self) -> Seeds {
        match self {
            SeedChoice::Tuning => Seeds::Tuning,
            SeedChoice::Judging => Seeds::Judging,
        }
    }

    /// As scenario files call it.
    pub fn word(self) -> &'static str {
        match self {
            SeedChoice::Tuning => "tuning",
            SeedChoice::Judging => "judging",
        }
    }
}
