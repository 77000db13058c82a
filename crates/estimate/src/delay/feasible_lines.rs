//! All the courses that a clock's offset can take over time below some points and above others.

/// Two clocks' rates differ by no more: each is slewed by 500 ppm at most (adjtimex(2)), and quartz is off by less.
pub(super) const MAX_SKEW_RATIO: f64 = 1e-3;

/// Stamps are of whole nanoseconds.
const ROUNDING_SECONDS: f64 = 1e-9;

/// Every function of time whose slope is nowhere steeper than [`MAX_SKEW_RATIO`], and that is nowhere above the upper points nor below
/// the lower ones: a clock may be slewed at any time, and otherwise again a moment later.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FeasibleLines {
    upper: HullLine,
    /// Of the functions turned upside down.
    lower: HullLine,
}

impl FeasibleLines {
    /// Those below the upper points and above the lower ones, each in any order; none where there is none.
    pub(super) fn between_points(upper: Vec<(f64, f64)>, lower: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let lower: Vec<_> = lower.into_iter().map(|(x, y)| (x, -y)).collect();
        let meets = |limit: &HullLine, points: &[(f64, f64)]| {
            points.iter().all(|&(x, y)| -y <= limit.value_at(x) + ROUNDING_SECONDS)
        };
        let limit = HullLine::new(upper);
        meets(&limit, &lower).then(|| FeasibleLines { upper: limit, lower: HullLine::new(lower) })
    }

    /// Those that also pass below one point and above another at the same time; none where there is none.
    pub(super) fn through_range(&self, x: f64, low: f64, high: f64) -> Option<Self> {
        let (least, most) = self.range_at(x);
        let is_met = low <= most + ROUNDING_SECONDS && least <= high + ROUNDING_SECONDS;
        is_met
            .then(|| FeasibleLines { upper: self.upper.with_point((x, high)), lower: self.lower.with_point((x, -low)) })
    }

    /// The least and the greatest value of any of them at `x`.
    pub(super) fn range_at(&self, x: f64) -> (f64, f64) {
        let (low, high) = (-self.lower.value_at(x), self.upper.value_at(x));
        // They may cross by what rounding makes.
        (low.min(high), high.max(low))
    }
}

/// The greatest function of such slopes below some points: the lowest of the cones that stand on them.
#[derive(Debug, Clone, PartialEq)]
struct HullLine {
    /// Where each cone stands, in ascending order.
    cone_positions: Vec<f64>,
    /// The lowest of the cones' right flanks, up to each place: their height at zero.
    right_flanks: Vec<f64>,
    /// The lowest of the left flanks, from each place on.
    left_flanks: Vec<f64>,
    points: Vec<(f64, f64)>,
}

impl HullLine {
    fn new(mut points: Vec<(f64, f64)>) -> Self {
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut right: Vec<f64> = points.iter().map(|(x, y)| y - MAX_SKEW_RATIO * x).collect();
        let mut left: Vec<f64> = points.iter().map(|(x, y)| y + MAX_SKEW_RATIO * x).collect();
        (1..points.len()).for_each(|i| right[i] = right[i].min(right[i - 1]));
        (1..points.len()).rev().for_each(|i| left[i - 1] = left[i - 1].min(left[i]));
        HullLine {
            cone_positions: points.iter().map(|(x, _)| *x).collect(),
            right_flanks: right,
            left_flanks: left,
            points,
        }
    }

    fn with_point(&self, point: (f64, f64)) -> Self {
        HullLine::new(self.points.iter().copied().chain([point]).collect())
    }

    fn value_at(&self, x: f64) -> f64 {
        let next = self.cone_positions.partition_point(|place| *place < x);
        let before = next.checked_sub(1).map_or(f64::INFINITY, |last| self.right_flanks[last] + MAX_SKEW_RATIO * x);
        let after = self.left_flanks.get(next).map_or(f64::INFINITY, |height| height - MAX_SKEW_RATIO * x);
        before.min(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_bound_what_is_near_them_most() {
        let courses = FeasibleLines::between_points(vec![(10.0, 3.0), (0.0, 1.0)], [(5.0, 0.9)]).unwrap();
        let near = |(low, high): (f64, f64), wanted: (f64, f64)| {
            assert!((low - wanted.0).abs() < 1e-12 && (high - wanted.1).abs() < 1e-12, "{low} … {high}");
        };
        near(courses.range_at(0.0), (0.895, 1.0));
        near(courses.range_at(5.0), (0.9, 1.005));
        near(courses.range_at(10.0), (0.895, 1.01));
        near(courses.range_at(-100.0), (0.795, 1.1));
        assert_eq!(FeasibleLines::between_points(vec![(0.0, 1.0)], [(5.0, 1.006)]), None);
        near(courses.through_range(7.0, 0.0, 0.9).unwrap().range_at(8.0), (0.897, 0.901));
        assert_eq!(courses.through_range(7.0, 0.0, 0.897), None);
    }
}
