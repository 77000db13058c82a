use crate::outer_transport::in_flight_control::InFlightControl;
use kumade_units::{Rate, Span};

/// The length of the longest packet that stands for segments, in bytes: six full ones; more save little.
pub const MAX_LARGE_PACKET_BYTES: usize = 9000;

/// The same where datagrams carry the segments, each by itself: what IP allows, less what stands before and behind a packet in its buffer.
pub(crate) const MAX_DIVIDED_BYTES: usize = (1 << 16) - 512;

/// How long packets may be that stand for segments.
///
/// **Rule.** Such a packet saves all headers but one set. All of it arrives with its last octet, though: it is to take no
/// longer than a millisecond on all paths together, but may always be two segments. And it waits for each of its parts that
/// is lost, and what follows in its flow waits with it: of a hundred, one may, so that a segment travels alone where one in
/// a hundred is lost.
#[derive(Debug, Default)]
pub(crate) struct LargePacketLimit {
    max_bytes: Option<usize>,
    /// Of all carriers, when they were last looked at.
    last_totals: (u64, u64),
    /// Bytes delivered of late, and those repeated.
    recent_delivered_bytes: f64,
    recent_retransmitted_bytes: f64,
}

const MAX_SERIALIZATION_TIME: Span = Span::from_millis(1);
const MIN_BYTES: usize = 3000;
const SEGMENT_BYTES: f64 = 1500.0;
const MAX_LOSS_RATIO: f64 = 0.01;
/// What remains of what was counted, four times a second.
const DECAY_PER_UPDATE: f64 = 0.98;

impl LargePacketLimit {
    /// In bytes, with headers; none where every packet travels alone.
    pub fn max_bytes(&self) -> Option<usize> {
        self.max_bytes
    }

    /// The paths that are up have these carriers, if they have any. To be told a few times a second.
    pub fn update(&mut self, carriers: Option<Vec<&InFlightControl>>) {
        let carriers = carriers.filter(|carriers| !carriers.is_empty());
        self.max_bytes = carriers.map(|carriers| {
            self.count_losses(&carriers);
            let rate = carriers.iter().filter_map(|carrier| carrier.rate()).map(Rate::as_f64).sum();
            let in_time = (Rate::from_f64(rate).bytes_in(MAX_SERIALIZATION_TIME) as usize)
                .clamp(MIN_BYTES, MAX_LARGE_PACKET_BYTES);
            in_time.min(self.max_bytes_for_loss())
        });
    }

    fn count_losses(&mut self, carriers: &[&InFlightControl]) {
        let sum = |(delivered, repeated), (more, again)| (delivered + more, repeated + again);
        let totals = carriers.iter().map(|carrier| carrier.delivered_and_retransmitted()).fold((0, 0), sum);
        // A carrier that has gone takes its own with it.
        let delivered = totals.0.saturating_sub(self.last_totals.0) as f64;
        let repeated = totals.1.saturating_sub(self.last_totals.1) as f64;
        self.last_totals = totals;
        self.recent_delivered_bytes = self.recent_delivered_bytes * DECAY_PER_UPDATE + delivered;
        self.recent_retransmitted_bytes = self.recent_retransmitted_bytes * DECAY_PER_UPDATE + repeated;
    }

    /// As much as arrives without a loss all but one time in a hundred.
    fn max_bytes_for_loss(&self) -> usize {
        let loss = self.recent_retransmitted_bytes / self.recent_delivered_bytes.max(1.0);
        if loss > 0.0 { (SEGMENT_BYTES * (MAX_LOSS_RATIO / loss).max(1.0)) as usize } else { MAX_LARGE_PACKET_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outer_transport::in_flight_control::StreamDelivery;
    use kumade_units::Time;

    /// With carriers that deliver 100 Mbit/s together, and repeat a part of it.
    fn after_a_while(loss: f64) -> Option<usize> {
        let mut large = LargePacketLimit::default();
        let mut carriers = [(); 4].map(|()| InFlightControl::new(true, Time::ZERO));
        for quarter in 1..=40_u64 {
            let acknowledged = quarter * 100_000_000 / 8 / 4 / 4;
            let repeated = (acknowledged as f64 * loss) as u64;
            let now = Time::ZERO + Span::from_millis(250) * quarter as i64;
            let state = StreamDelivery {
                acknowledged_bytes: acknowledged,
                delivered_bytes: acknowledged,
                retransmitted_bytes: repeated,
                ..StreamDelivery::default()
            };
            carriers.iter_mut().for_each(|carrier| carrier.update(state, None, None, now));
            large.update(Some(carriers.iter().collect()));
        }
        large.max_bytes()
    }

    #[test]
    fn they_are_long_where_nothing_is_lost_and_none_where_much_is() {
        assert_eq!(after_a_while(0.0), Some(MAX_LARGE_PACKET_BYTES));
        assert_eq!(after_a_while(0.001), Some(MAX_LARGE_PACKET_BYTES));
        let some = after_a_while(0.005).unwrap();
        assert!((2900..3100).contains(&some), "{some}");
        assert_eq!(after_a_while(0.02), Some(1500));
    }

    #[test]
    fn they_are_short_on_slow_paths_and_none_where_nobody_controls_the_flow() {
        let carrier = InFlightControl::new(true, Time::ZERO);
        let mut large = LargePacketLimit::default();
        large.update(Some(vec![&carrier]));
        assert_eq!(large.max_bytes(), Some(3000));
        large.update(None);
        assert_eq!(large.max_bytes(), None);
        large.update(Some(vec![]));
        assert_eq!(large.max_bytes(), None);
    }
}
