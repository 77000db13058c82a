use super::FlowStatistics;

/// Flows with fewer packets say nothing about shares: a name looked up, a ping.
const FEWEST_PACKETS: u64 = 10;

/// Jain's index (Jain, Chiu, Hawe 1984) of what the active flows got through: 1 where all got the same, 1/n where one
/// of n got everything; and how many they are. Active is who offered at least ten packets. `None` where nobody did.
pub fn fairness_index(flows: &[FlowStatistics]) -> Option<(f64, usize)> {
    let active = flows.iter().filter(|flow| flow.offered.packets >= FEWEST_PACKETS);
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
