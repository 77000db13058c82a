use super::FlowStatistics;
use kumade_units::Span;

/// Flows with fewer packets say nothing about shares: a name looked up, a ping.
const MIN_ACTIVE_FLOW_PACKETS: u64 = 10;

/// Jain's index (Jain, Chiu, Hawe 1984) of what the active flows got through: 1 where all got the same, 1/n where one
/// of n got everything; and how many they are. Active is who offered at least ten packets. `None` where nobody did.
pub fn fairness_index(flows: &[FlowStatistics]) -> Option<(f64, usize)> {
    let active = flows.iter().filter(|flow| flow.offered.packets >= MIN_ACTIVE_FLOW_PACKETS);
    let (mut count, mut sum, mut squares) = (0, 0.0, 0.0);
    for share in active.map(|flow| flow.delivered.bytes as f64) {
        count += 1;
        sum += share;
        squares += share * share;
    }
    match count {
        0 => None,
        // Nothing came through for anybody: all are alike.
        _ if squares == 0.0 => Some((1.0, count)),
        _ => Some((sum * sum / (count as f64 * squares), count)),
    }
}

/// The mean index of a direction over time. Unlike an index of the whole time it does not call it unfair that flows
/// begin and end.
#[derive(Debug, Clone, Copy, Default)]
pub struct MeanFairness {
    weighted_sum: f64,
    seconds: f64,
}

impl MeanFairness {
    /// Counts an interval with these flows; one without active flows says nothing.
    pub fn add_interval(&mut self, flows: &[FlowStatistics], duration: Span) {
        if let Some((index, _)) = fairness_index(flows) {
            self.weighted_sum += index * duration.as_secs_f64();
            self.seconds += duration.as_secs_f64();
        }
    }

    /// `None` while no interval said anything.
    pub fn mean(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.weighted_sum / self.seconds)
    }
}
