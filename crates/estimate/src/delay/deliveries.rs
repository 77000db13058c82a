use kumade_probe_train::Estimate;

/// What became of the packets of a stream, other than their delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deliveries {
    /// Packets sent.
    pub sent: u32,
    /// Packets that arrived at least once within the deadline.
    pub arrived: u32,
    /// Packets whose first copy arrived after the deadline: they are not lost.
    pub late: u32,
    /// Packets that never arrived.
    pub lost: u32,
    /// Copies beyond the first of each packet (RFC 5560).
    pub duplicates: u32,
    /// Packets that arrived behind one that was sent later (RFC 4737, Type-P-Reordered).
    pub reordered: u32,
    /// The most places by which one of them came behind (RFC 4737, 4.2.2: reordering extent).
    pub reordering_extent: u32,
}

impl Deliveries {
    /// Of a stream of `sent` packets, numbered from zero, and its arrivals in the order in which they came: each with
    /// its number and whether it came after the deadline. Numbers that were never sent are passed over.
    pub fn from_arrivals(sent: u32, arrivals: impl IntoIterator<Item = (u32, bool)>) -> Self {
        let mut counts = Deliveries { sent, ..Deliveries::default() };
        let mut seen = vec![false; sent as usize];
        // The packets that came later than all before them, by place of arrival and number: both grow.
        let mut leaders: Vec<(u32, u32)> = Vec::new();
        let mut place = 0;
        for (number, late) in arrivals {
            let Some(seen) = seen.get_mut(number as usize) else { continue };
            if std::mem::replace(seen, true) {
                counts.duplicates += 1;
                continue;
            }
            if late {
                counts.late += 1;
            } else {
                counts.arrived += 1;
            }
            let overtaken_by = leaders.partition_point(|&(_, leader)| leader < number);
            match leaders.get(overtaken_by) {
                Some(&(first, _)) => {
                    counts.reordered += 1;
                    counts.reordering_extent = counts.reordering_extent.max(place - first);
                }
                None => leaders.push((place, number)),
            }
            place += 1;
        }
        counts.lost = sent - counts.arrived - counts.late;
        counts
    }

    /// Takes in what became of another stream in the same direction.
    pub fn add_counts(&mut self, other: Deliveries) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.late += other.late;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.reordering_extent = self.reordering_extent.max(other.reordering_extent);
    }

    /// Packets that never arrived, as a part of those sent, with Wilson's 95 % interval of what the path loses in the long
    /// run (JASA 22, 1927): as if each packet were lost by itself; anything from 0 to 1 where none was sent.
    pub fn loss_ratio(&self) -> Estimate<f64> {
        loss_ratio(self.lost.into(), self.sent.into())
    }

    /// Reordered packets as a part of those that arrived, sooner or later (RFC 4737, 4.1).
    pub fn reordering_ratio(&self) -> f64 {
        ratio(self.reordered, self.arrived + self.late)
    }
}

/// Lost packets as a part of those sent: [`Deliveries::loss_ratio`] of counts alone.
pub fn loss_ratio(lost: u64, sent: u64) -> Estimate<f64> {
    const CONFIDENCE_95_DEVIATIONS: f64 = 1.959_964;
    let square = CONFIDENCE_95_DEVIATIONS * CONFIDENCE_95_DEVIATIONS;
    let (lost, sent) = (lost as f64, sent as f64);
    let value = if sent > 0.0 { lost / sent } else { 0.0 };
    let middle = (lost + square / 2.0) / (sent + square);
    let spread = (sent * value * (1.0 - value) + square / 4.0).sqrt() * CONFIDENCE_95_DEVIATIONS / (sent + square);
    let (low, high) = ((middle - spread).clamp(0.0, value), (middle + spread).clamp(value, 1.0));
    Estimate { value, low, high, confidence: 0.95 }
}

fn ratio(part: u32, whole: u32) -> f64 {
    if whole == 0 { 0.0 } else { f64::from(part) / f64::from(whole) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_deliveries(sent: u32, numbers: &[u32]) -> Deliveries {
        Deliveries::from_arrivals(sent, numbers.iter().map(|&number| (number, false)))
    }

    #[test]
    fn reordering_counts_from_the_first_packet_that_overtook() {
        let counts = count_deliveries(10, &[0, 1, 2, 6, 7, 8, 9, 3, 4, 5]);
        assert_eq!((counts.reordered, counts.reordering_extent), (3, 6));
        let counts = count_deliveries(10, &[0, 1, 2, 3, 5, 6, 4, 7, 8, 9]);
        assert_eq!((counts.reordered, counts.reordering_extent), (1, 2));
        assert!((counts.reordering_ratio() - 0.1).abs() < 1e-12);
    }

    /// The figures are those of Newcombe, Statistics in Medicine 17 (1998), table I.
    #[test]
    fn the_interval_of_loss_is_wilsons() {
        let loss = |lost, sent| Deliveries { lost, sent, ..Deliveries::default() }.loss_ratio();
        for (lost, sent, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let interval = loss(lost, sent);
            assert!((interval.low - low).abs() < 5e-5 && (interval.high - high).abs() < 5e-5, "{interval:?}");
            assert!((interval.value - f64::from(lost) / f64::from(sent)).abs() < 1e-12);
        }
        assert_eq!((loss(0, 0).low, loss(0, 0).high), (0.0, 1.0), "nothing is known");
        assert_eq!(loss(7, 7).high, 1.0);
    }

    #[test]
    fn streams_add_up() {
        let mut both = count_deliveries(10, &[0, 1, 2, 6, 7, 8, 9, 3, 4, 5]);
        both.add_counts(count_deliveries(10, &[0, 1, 2, 3, 5, 6, 4, 7]));
        assert_eq!((both.sent, both.arrived, both.lost), (20, 18, 2));
        assert_eq!((both.reordered, both.reordering_extent), (4, 6));
    }

    #[test]
    fn late_is_not_lost_and_copies_count_once() {
        let counts =
            Deliveries::from_arrivals(5, [(0, false), (0, false), (2, false), (1, true), (1, false), (9, false)]);
        let expected =
            Deliveries { sent: 5, arrived: 2, late: 1, lost: 2, duplicates: 2, reordered: 1, reordering_extent: 1 };
        assert_eq!(counts, expected);
        assert_eq!(count_deliveries(0, &[1]), Deliveries::default());
    }
}
