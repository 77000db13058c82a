use super::buildable::{as_built, unsupported_reason};
use crate::accuracy::{BottleneckKind, Transport};
use crate::study::Exclusion;
use crate::values::parse_list;
use kumade_sim::atlas::{DrawnPath, PathKind, Seeds};
use serde::{Deserialize, Deserializer};

/// An experiment on paths of many kinds. It comes from a scenario file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathAtlas {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The kinds of paths.
    #[serde(deserialize_with = "path_kinds")]
    pub kinds: Vec<PathKind>,
    /// What carries the trains: UDP, or many TCP connections.
    pub transports: Vec<Transport>,
    /// Paths of each kind; in real time, of each that can be built.
    pub runs: u32,
    /// The same as a file has it for real time.
    pub(super) real_runs: u32,
    /// Which paths are drawn.
    pub seeds: SeedChoice,
    /// Whether it runs in virtual time, on emulated links between real hosts, or on the kernel's shapers.
    #[serde(skip)]
    pub bottleneck: BottleneckKind,
}

/// In real time the paths of each kind are the first ones of so many that can be built.
const TRIED_PATHS: u32 = 100;

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
    pub path_number: u32,
    /// What carries the trains.
    pub transport: Transport,
}

impl PathAtlas {
    /// Every measurement in the order of the report.
    pub(super) fn points_of_all_kinds(&self) -> Vec<AtlasPoint> {
        let of_kind = |kind| {
            let numbers: Vec<u32> = self.path_numbers(kind).collect();
            let transports = self.transports.iter().filter(move |transport| transport_passes(kind, **transport));
            transports.flat_map(move |&transport| {
                numbers.clone().into_iter().map(move |number| AtlasPoint { kind, path_number: number, transport })
            })
        };
        self.kinds.iter().copied().flat_map(of_kind).collect()
    }

    /// The path of a point.
    pub(super) fn path(&self, point: &AtlasPoint) -> DrawnPath {
        as_built(self.draw_path(point.kind, point.path_number), self.bottleneck)
    }

    pub(super) fn is_virtual(&self) -> bool {
        self.bottleneck == BottleneckKind::Virtual
    }

    /// Kinds of which no path can be built so, and transports that a kind does not pass, and why.
    pub(super) fn excluded_kinds(&self) -> Vec<Exclusion> {
        let blocked = |kind: PathKind| {
            let blocked = self.transports.iter().filter(move |transport| !transport_passes(kind, **transport));
            blocked.map(move |transport| Exclusion {
                kind: format!("{kind} over {}", transport.word()),
                reason: "such a path passes TCP only".to_owned(),
            })
        };
        let blocked = self.kinds.iter().copied().flat_map(blocked);
        if self.is_virtual() {
            return blocked.collect();
        }
        let left_out = |kind: &PathKind| {
            let reason = unsupported_reason(&self.draw_path(*kind, 0), self.bottleneck)?;
            self.path_numbers(*kind).next().is_none().then(|| Exclusion { kind: kind.name().to_owned(), reason })
        };
        self.kinds.iter().filter_map(left_out).chain(blocked).collect()
    }

    /// Whether there is a path to measure.
    pub(crate) fn has_points(&self) -> bool {
        let passes_any =
            |kind: &&PathKind| self.transports.iter().any(|transport| transport_passes(**kind, *transport));
        self.kinds.iter().filter(passes_any).any(|kind| self.path_numbers(*kind).next().is_some())
    }

    /// Of the paths of this kind.
    fn path_numbers(&self, kind: PathKind) -> impl Iterator<Item = u32> {
        let tried = if self.is_virtual() { self.runs } else { TRIED_PATHS.max(self.runs) };
        let is_possible = move |number: &u32| {
            self.is_virtual() || unsupported_reason(&self.draw_path(kind, *number), self.bottleneck).is_none()
        };
        (0..tried).filter(is_possible).take(self.runs as usize)
    }

    fn draw_path(&self, kind: PathKind, number: u32) -> DrawnPath {
        DrawnPath::new(kind, self.seeds.seeds().seed(number))
    }
}

fn transport_passes(kind: PathKind, transport: Transport) -> bool {
    transport != Transport::Udp || kind.can_carry(kumade_probe_train::Transport::Udp)
}

impl SeedChoice {
    /// The seeds.
    pub fn seeds(self) -> Seeds {
        match self {
            SeedChoice::Tuning => Seeds::Tuning,
            SeedChoice::Judging => Seeds::Evaluation,
        }
    }

    /// As scenario files call it.
    pub fn keyword(self) -> &'static str {
        match self {
            SeedChoice::Tuning => "tuning",
            SeedChoice::Judging => "judging",
        }
    }
}

fn path_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathKind>, D::Error> {
    parse_list(deserializer, "a kind of path in quotes, such as \"fifo\"", str::parse)
}
