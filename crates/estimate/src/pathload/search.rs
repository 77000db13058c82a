//! Which rate to try next: the paper's rate adjustment, a binary search around a grey region.

/// What a fleet says of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FleetResult {
    /// The rate is above the available bandwidth.
    Above,
    /// Below.
    Below,
    /// The available bandwidth went past the rate, up or down, during the fleet.
    Grey,
}

/// What is known, in bit/s. The available bandwidth varies in the grey region, which lies between the bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RateSearch {
    /// Highest rate that was below.
    pub(super) low: f64,
    /// Lowest rate that was above; none yet while the rate doubles.
    pub(super) high: Option<f64>,
    grey_region: Option<(f64, f64)>,
    pub(super) first_rate: f64,
    resolution: f64,
    grey_resolution: f64,
}

impl RateSearch {
    /// Begins with the rate `first`; ends when the bounds are `resolution` from each other, or both
    /// `grey_resolution` from the grey region.
    pub(super) fn new(first: f64, resolution: f64, grey_resolution: f64) -> Self {
        RateSearch { low: 0.0, high: None, grey_region: None, first_rate: first, resolution, grey_resolution }
    }

    /// The next rate; none when the bounds are near enough.
    pub(super) fn next_rate(&self) -> Option<f64> {
        let Some(high) = self.high else {
            let reached = self.grey_region.map_or(self.low, |(_, top)| top.max(self.low));
            return Some(if reached > 0.0 { 2.0 * reached } else { self.first_rate });
        };
        if high - self.low <= self.resolution {
            return None;
        }
        match self.grey_region {
            None => Some((self.low + high) / 2.0),
            Some((_, top)) if high - top > self.grey_resolution => Some((top + high) / 2.0),
            Some((bottom, _)) if bottom - self.low > self.grey_resolution => Some((self.low + bottom) / 2.0),
            Some(_) => None,
        }
    }

    /// How many fleets are to come, roughly.
    pub(super) fn fleets_to_come(&self) -> i64 {
        let open = self.high.unwrap_or(2.0 * self.first_rate.max(self.low)) - self.low;
        (open / self.resolution).log2().ceil().clamp(1.0, 30.0) as i64
    }

    /// Takes in what a fleet of this rate said. Newer fleets overrule the grey region of older ones.
    pub(super) fn record_fleet(&mut self, rate: f64, verdict: FleetResult) {
        match verdict {
            FleetResult::Above => {
                self.high = Some(rate);
                self.grey_region =
                    self.grey_region.and_then(|(bottom, top)| (bottom < rate).then_some((bottom, top.min(rate))));
            }
            FleetResult::Below => {
                self.low = rate;
                self.grey_region =
                    self.grey_region.and_then(|(bottom, top)| (top > rate).then_some((bottom.max(rate), top)));
            }
            FleetResult::Grey => {
                let (bottom, top) = self.grey_region.unwrap_or((rate, rate));
                self.grey_region = Some((bottom.min(rate), top.max(rate)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds, and how many fleets it took, where rates within `varies` are grey.
    fn search(first: f64, varies: (f64, f64)) -> (RateSearch, u32) {
        let mut search = RateSearch::new(first, 1.0, 1.5);
        let mut fleets = 0;
        while let Some(rate) = search.next_rate() {
            let verdict = match rate {
                r if r > varies.1 => FleetResult::Above,
                r if r < varies.0 => FleetResult::Below,
                _ => FleetResult::Grey,
            };
            search.record_fleet(rate, verdict);
            fleets += 1;
            assert!(fleets < 30, "{search:?}");
        }
        (search, fleets)
    }

    #[test]
    fn the_bounds_close_in_on_a_steady_value() {
        for (first, value) in [(100.0, 40.3), (100.0, 0.2), (10.0, 95.1), (100.0, 99.9)] {
            let (found, _) = search(first, (value, value));
            let high = found.high.unwrap();
            assert!(found.low <= value && value <= high && high - found.low <= 1.0, "{value}: {found:?}");
        }
    }

    #[test]
    fn a_varying_value_ends_as_the_range_in_which_it_varies() {
        for (first, varies) in [(100.0, (30.0, 50.0)), (20.0, (35.0, 45.0)), (100.0, (97.0, 103.0))] {
            let (found, _) = search(first, varies);
            let high = found.high.unwrap();
            assert!(found.low <= varies.0 && varies.1 <= high, "{varies:?}: {found:?}");
            assert!(varies.0 - found.low <= 3.0 && high - varies.1 <= 3.0, "{varies:?}: {found:?}");
        }
    }
}
