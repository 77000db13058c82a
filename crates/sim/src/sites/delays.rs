use kumade_units::Span;
use std::collections::BTreeMap;

/// The distribution of packets' one-way delays, to 10 µs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DelayHistogram {
    /// By delay in units of 10 µs.
    packets: BTreeMap<i64, u64>,
    count: u64,
}

const BUCKET_WIDTH: Span = Span::from_micros(10);

impl DelayHistogram {
    pub(super) fn record(&mut self, delay: Span) {
        *self.packets.entry(delay.as_nanos() / BUCKET_WIDTH.as_nanos()).or_default() += 1;
        self.count += 1;
    }

    /// Packets.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The quantile of this order, from 0 to 1; `None` without packets.
    pub fn quantile(&self, order: f64) -> Option<Span> {
        let rank = (self.count as f64 * order).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.packets.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        reached.map(|(units, _)| BUCKET_WIDTH * *units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_delay_that_so_many_packets_do_not_exceed() {
        let mut delays = DelayHistogram::default();
        assert_eq!(delays.quantile(0.5), None);
        (1..=100).for_each(|millis| delays.record(Span::from_millis(millis)));
        let quantiles = [0.0, 0.5, 0.99, 1.0].map(|order| delays.quantile(order));
        assert_eq!(quantiles, [1, 50, 99, 100].map(|millis| Some(Span::from_millis(millis))));
        assert_eq!(delays.count(), 100);
    }
}
