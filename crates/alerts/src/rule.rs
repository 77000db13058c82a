use crate::evidence::{Evidence, Suspicion};
use crate::pair::WatchedPair;
use kumade_units::{Rate, Span};

/// What is alerted on.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// By which it is known after a restart: different from all others.
    pub name: String,
    /// The condition.
    pub condition: Condition,
    /// Ids of the pairs that it is about; none for all.
    pub pairs: Option<Vec<String>>,
    /// How many observations have to be bad …
    pub times: u32,
    /// … of the last so many; as many good ones in a row end an alert.
    pub out_of: u32,
}

/// What is bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Condition {
    /// Probes in a row are lost.
    Down,
    /// There is no result of a probe, neither an answer nor a loss.
    NoData,
    /// More than this part of the probes is lost.
    Loss {
        /// The part.
        above: f64,
    },
    /// The delay is above a limit.
    Delay {
        /// Which delay.
        quantile: DelayQuantile,
        /// The limit.
        above: Span,
    },
    /// The available bandwidth is below a limit.
    Available {
        /// In which direction; none for either.
        direction: Option<Direction>,
        /// The limit, in bits per second.
        below: f64,
    },
    /// The available bandwidth has changed: its interval is disjoint from the usual one.
    Change {
        /// In which direction; none for either.
        direction: Option<Direction>,
    },
    /// What is measured cannot be archived.
    NotArchived,
    /// An agent of a mesh is not connected.
    AgentSilent,
}

/// A quantile of the delays of the last minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelayQuantile {
    /// Half of the probes took no longer.
    Median,
    /// 95 % of the probes took no longer.
    Percent95,
}

/// Seen from the host that measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// To the target.
    Up,
    /// From it.
    Down,
}

/// Probes in a row that are lost before an alert. With 1 % of independent losses, a million million sixes of probes have one; a
/// thousand pairs send 3·10¹⁰ probes a year at one a second.
const DEFAULT_LOST_PROBES: u32 = 6;
/// Intervals without any result, beyond the time that answers are waited for. Probes are four intervals apart at most.
const DEFAULT_SILENT_INTERVALS: u32 = 10;
/// Minutes in a row whose figures, which are of the last 15 minutes, are beyond a limit.
const DEFAULT_MINUTES: u32 = 3;
/// Measurements of the last three that are beyond a limit: an interval of 95 % misses the truth once in twenty times.
const DEFAULT_RUNS: (u32, u32) = (2, 3);
/// Lost probes are an outage only if they span as many intervals: a burst that a queue or a route makes is shorter.
const MIN_OUTAGE_INTERVALS: i64 = 3;
/// A pair counts as recovered after as many intervals, and after [`MIN_HOLD`].
const HOLD_INTERVALS: i64 = 10;
const MIN_HOLD: Span = Span::from_secs(10);
/// Between two observations of the last minutes' figures.
const MINUTE: Span = Span::from_secs(60);

impl Condition {
    /// A word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Condition::Down => "down",
            Condition::NoData => "no-data",
            Condition::Loss { .. } => "loss",
            Condition::Delay { .. } => "delay",
            Condition::Available { .. } => "available",
            Condition::Change { .. } => "change",
            Condition::NotArchived => "not-archived",
            Condition::AgentSilent => "agent-silent",
        }
    }

    /// How many observations of how many have to be bad where nothing else is said.
    pub fn default_times(&self) -> (u32, u32) {
        match self {
            Condition::Down => (DEFAULT_LOST_PROBES, DEFAULT_LOST_PROBES),
            Condition::NoData => (DEFAULT_SILENT_INTERVALS, DEFAULT_SILENT_INTERVALS),
            Condition::Loss { .. } | Condition::Delay { .. } => (DEFAULT_MINUTES, DEFAULT_MINUTES),
            Condition::Available { .. } | Condition::Change { .. } => DEFAULT_RUNS,
            Condition::NotArchived | Condition::AgentSilent => (1, 1),
        }
    }

    /// Nothing else can be said of a pair while it is so.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self, Condition::Down | Condition::NoData)
    }
}

impl Rule {
    /// The condition with its usual numbers, on all pairs, by the condition's name.
    pub fn new(condition: Condition) -> Self {
        let (times, out_of) = condition.default_times();
        Rule { name: condition.word().to_owned(), condition, pairs: None, times, out_of }
    }

    /// Those that need no threshold of the user's: probes that are lost or missing, more than 5 % of loss, an archive that takes nothing,
    /// agents that are silent.
    pub fn defaults() -> Vec<Rule> {
        const MAX_LOSS_RATIO: f64 = 0.05;
        let conditions = [
            Condition::Down,
            Condition::NoData,
            Condition::Loss { above: MAX_LOSS_RATIO },
            Condition::NotArchived,
            Condition::AgentSilent,
        ];
        conditions.into_iter().map(Rule::new).collect()
    }

    /// When an alert is raised, in words.
    pub fn describe(&self) -> String {
        let (times, out_of) = (self.times, self.out_of);
        let direction = |direction: &Option<Direction>| match direction {
            Some(Direction::Up) => "to the target",
            Some(Direction::Down) => "from the target",
            None => "in either direction",
        };
        match &self.condition {
            Condition::Down => format!("{times} probes in a row without an answer"),
            Condition::NoData => format!("no result of a probe for {times} intervals"),
            Condition::Loss { above } => {
                let percent = above * 100.0;
                format!("loss above {percent} %, as sure as 95 %, in {times} of {out_of} minutes")
            }
            Condition::Delay { quantile, above } => {
                let which = match quantile {
                    DelayQuantile::Median => "median delay",
                    DelayQuantile::Percent95 => "delay of the slowest 5 %",
                };
                format!("{which} above {above} in {times} of {out_of} minutes")
            }
            Condition::Available { direction: which, below } => {
                let (rate, which) = (Rate::from_f64(*below), direction(which));
                format!(
                    "available bandwidth {which} below {rate}, the whole interval of {times} of {out_of} measurements"
                )
            }
            Condition::Change { direction: which } => {
                let which = direction(which);
                format!("available bandwidth {which} unlike the usual one, {times} of {out_of} measurements")
            }
            Condition::NotArchived => "nothing can be archived".to_owned(),
            Condition::AgentSilent => "an agent that is not connected for a minute".to_owned(),
        }
    }

    /// Between two observations of a pair.
    pub(crate) fn cadence(&self, pair: &WatchedPair) -> Span {
        match self.condition {
            Condition::Down | Condition::NoData | Condition::NotArchived | Condition::AgentSilent => pair.interval,
            Condition::Loss { .. } | Condition::Delay { .. } => MINUTE,
            Condition::Available { .. } | Condition::Change { .. } => pair.period.unwrap_or(MINUTE),
        }
    }

    /// How long bad observations have to span.
    pub(crate) fn min_duration(&self, pair: &WatchedPair) -> Span {
        if self.condition.is_unreachable() { pair.interval * MIN_OUTAGE_INTERVALS } else { Span::ZERO }
    }

    /// Whether there is enough evidence for an alert on the pair alone.
    pub(crate) fn is_ripe(&self, evidence: &Evidence, pair: &WatchedPair) -> bool {
        let min_duration = self.min_duration(pair);
        let is_enough =
            |suspicion: Suspicion| suspicion.bad >= self.times && suspicion.last - suspicion.first >= min_duration;
        evidence.suspicion.is_some_and(is_enough)
    }

    /// How long a pair has to have recovered.
    pub(crate) fn hold(&self, pair: &WatchedPair) -> Span {
        if self.condition.is_unreachable() { (pair.interval * HOLD_INTERVALS).max(MIN_HOLD) } else { Span::ZERO }
    }
}
