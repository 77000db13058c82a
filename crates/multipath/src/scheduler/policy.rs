use crate::path::id::PathId;
use crate::scheduler::path_scheduler::PathSet;
use kumade_units::ConfigError;
use std::cmp::Reverse;

/// By which path the next packet goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathPolicy {
    /// A fixed ratio, each path's packets spread evenly among those of the others. A path that is down is left out.
    Ratio {
        /// How many of path 0, of path 1, …
        shares: Vec<u32>,
        /// Of what.
        unit: ShareUnit,
    },
    /// Each path as much as it carries: a packet goes to the path, among those whose pace allows it, that has sent least
    /// for its rate. Packets of every flow go over all paths.
    Weighted,
    /// Short flows and unordered ones by the path on which a packet arrives first, long ones over those paths that
    /// together bring most ([`PathScheduler`](crate::PathScheduler)). A packet that would arrive earlier by waiting for a faster
    /// path waits, unless what its flow is expected to send would take longer that way (Earliest Completion First: Lim
    /// et al., CoNEXT 2017); that is decided per flow, by its size so far.
    EarliestArrival,
    /// A copy on each path; one that falls behind is spared what it cannot carry. The first copy to arrive counts. It is put
    /// in order as any packet is: what is lost on one path is waited for as long as a copy may come by another.
    Redundant,
    /// By the path that has sent least of those that have room, those last whose carrier repeats what was lost: for paths of one route that control
    /// their flow themselves, such as several TCP connections ([`OuterTransport::Tcp`](crate::OuterTransport)). Small
    /// packets of sparse flows go over two paths, of which the first copy counts; with four paths or more, two are kept
    /// for these, so that they wait behind no other flow's loss.
    LeastSent,
    /// Each flow by one path: rendezvous hashing (Thaler, Ravishankar 1998), weighted by the paths' rates. It stays there
    /// until the path is down.
    Pinned,
}

/// What a [`PathPolicy::Ratio`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShareUnit {
    /// Packets, as Hanai et al. do.
    #[default]
    Packets,
    /// Bytes, in units of 1500, so that a path with small packets does not get less.
    Bytes,
}

/// How a packet may be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficClass {
    /// Its flow wants its packets in order: it may use several paths, and the far end puts it in order.
    #[default]
    Ordered,
    /// Its flow prefers speed to order: it is not resequenced, and stays on one path at a time.
    Unordered,
}

/// Which flows prefer speed to order: by DSCP or port, as an operator lists them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnorderedFlows {
    /// Values of the DSCP field (RFC 2474), below 64.
    pub dscps: Vec<u8>,
    /// Ports, of the source or of the destination.
    pub ports: Vec<u16>,
}

impl UnorderedFlows {
    /// The class of a packet; ports are `None` where it has none or they are not visible.
    pub fn classify(&self, dscp: u8, ports: Option<(u16, u16)>) -> TrafficClass {
        let listed = |(source, destination)| self.ports.contains(&source) || self.ports.contains(&destination);
        if self.dscps.contains(&dscp) || ports.is_some_and(listed) {
            TrafficClass::Unordered
        } else {
            TrafficClass::Ordered
        }
    }
}

impl PathPolicy {
    /// Whether it suits so many paths.
    ///
    /// # Errors
    /// A ratio has not one share per path, or none above zero.
    pub fn check_policy(&self, paths: usize) -> Result<(), ConfigError> {
        let PathPolicy::Ratio { shares, .. } = self else { return Ok(()) };
        let error = ConfigError::for_part("path choice");
        let text = shares.iter().map(u32::to_string).collect::<Vec<_>>().join(":");
        if shares.len() != paths {
            return Err(error("ratio", text, "of another number of paths", "give one share for each path"));
        }
        if shares.iter().all(|share| *share == 0) {
            return Err(error("ratio", text, "which uses no path", "give a share above 0 to one at least"));
        }
        Ok(())
    }
}

/// The turns of a [`PathPolicy::Ratio`]: each path's are spread evenly among those of the others, so that paths that are
/// paced send at the same time (smooth weighted round-robin).
#[derive(Debug, Clone)]
pub(crate) struct WeightedRoundRobin {
    shares: Vec<u32>,
    unit: ShareUnit,
    /// What each path is owed, in packets or bytes times the sum of the shares.
    credits: Vec<i64>,
}

impl WeightedRoundRobin {
    pub fn new(shares: &[u32], unit: ShareUnit) -> Self {
        WeightedRoundRobin { shares: shares.to_vec(), unit, credits: vec![0; shares.len()] }
    }

    fn share(&self, path: PathId) -> i64 {
        self.shares[path.index()].into()
    }

    /// Whose turn it is among the paths that are up: of those with a share, the one that is owed most when each is given
    /// its share of a packet.
    pub fn next_path(&self, up: PathSet) -> Option<PathId> {
        let shared = up.iter().filter(|path| self.share(*path) > 0);
        shared.max_by_key(|path| (self.credits[path.index()] + self.share(*path), Reverse(*path)))
    }

    /// A path has sent a packet, of those that are up.
    pub fn record_sent(&mut self, by: PathId, size: u32, up: PathSet) {
        let cost = if self.unit == ShareUnit::Bytes { i64::from(size) } else { 1 };
        for path in up.iter() {
            let due = self.share(path) * cost;
            self.credits[path.index()] += due;
            self.credits[by.index()] -= due;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> [PathId; 3] {
        [0, 1, 2].map(|number| PathId::new(number).unwrap())
    }

    #[test]
    fn turns_are_spread_evenly_and_pass_a_path_that_is_down() {
        let mut turns = WeightedRoundRobin::new(&[3, 0, 2], ShareUnit::Packets);
        let all = PathSet::from_paths(paths());
        let mut take = |up: PathSet, count: usize| -> Vec<u8> {
            let mut next = || {
                let path = turns.next_path(up)?;
                turns.record_sent(path, 100, up);
                Some(path.number())
            };
            (0..count).map_while(|_| next()).collect()
        };
        assert_eq!(take(all, 7), [0, 2, 0, 2, 0, 0, 2]);
        assert_eq!(take(PathSet::from_paths([paths()[2]]), 3), [2, 2, 2]);
        assert!(take(PathSet::default(), 3).is_empty());
        assert!(take(PathSet::from_paths([paths()[1]]), 3).is_empty(), "its share is nothing");
    }

    #[test]
    fn shares_of_bytes_are_kept_whatever_the_sizes() {
        let mut turns = WeightedRoundRobin::new(&[1, 2], ShareUnit::Bytes);
        let mut sent = [0u32; 2];
        for n in 0..3000u32 {
            let both = PathSet::from_paths([paths()[0], paths()[1]]);
            let path = turns.next_path(both).unwrap();
            let size = 60 + n * 7919 % 1440;
            turns.record_sent(path, size, both);
            sent[path.index()] += size;
        }
        let ratio = f64::from(sent[1]) / f64::from(sent[0]);
        assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
    }

    #[test]
    fn a_ratio_fits_its_paths() {
        let ratio = |shares: &[u32]| PathPolicy::Ratio { shares: shares.to_vec(), unit: ShareUnit::Packets };
        assert_eq!(ratio(&[3, 1]).check_policy(2), Ok(()));
        assert!(ratio(&[3, 1]).check_policy(3).unwrap_err().to_string().contains("3:1"));
        assert!(ratio(&[0, 0]).check_policy(2).unwrap_err().to_string().contains("uses no path"));
    }

    #[test]
    fn flows_are_unordered_by_dscp_or_either_port() {
        let flows = UnorderedFlows { dscps: vec![46], ports: vec![5060] };
        assert_eq!(flows.classify(46, None), TrafficClass::Unordered);
        assert_eq!(flows.classify(0, Some((1, 5060))), TrafficClass::Unordered);
        assert_eq!(flows.classify(0, Some((5061, 80))), TrafficClass::Ordered);
    }
}
