//! All the straight lines that pass below some points and above others: a convex polygon of (height, slope).

use super::feasible_lines::MAX_SKEW_RATIO;

/// Stamps are of whole nanoseconds.
const ROUNDING_SECONDS: f64 = 1e-9;

/// A set of lines `y = height + slope · x`, as the corners of a convex polygon; never empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LineSet {
    corners: Vec<(f64, f64)>,
}

impl LineSet {
    /// Every line whose slope two clocks can have, and whose height at zero is within these.
    pub(super) fn between_offsets(lowest: f64, highest: f64) -> Self {
        let corners = vec![
            (lowest, -MAX_SKEW_RATIO),
            (highest, -MAX_SKEW_RATIO),
            (highest, MAX_SKEW_RATIO),
            (lowest, MAX_SKEW_RATIO),
        ];
        LineSet { corners }
    }

    /// Those that pass below the point, or through it; none where there is none.
    pub(super) fn below_point(&self, (x, y): (f64, f64)) -> Option<Self> {
        self.keep_half(|(height, slope)| y + ROUNDING_SECONDS - height - slope * x)
    }

    /// Those that pass above the point, or through it; none where there is none.
    pub(super) fn above_point(&self, (x, y): (f64, f64)) -> Option<Self> {
        self.keep_half(|(height, slope)| height + slope * x - y + ROUNDING_SECONDS)
    }

    /// The corners for which `room` is not negative, and the places on the edges where it becomes so (Sutherland and
    /// Hodgman, 1974).
    fn keep_half(&self, room: impl Fn((f64, f64)) -> f64) -> Option<Self> {
        let mut corners = Vec::with_capacity(self.corners.len() + 1);
        for (i, &to) in self.corners.iter().enumerate() {
            let from = self.corners[(i + self.corners.len() - 1) % self.corners.len()];
            let (before, after) = (room(from), room(to));
            if (before < 0.0) != (after < 0.0) {
                let part = before / (before - after);
                corners.push((from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1)));
            }
            if after >= 0.0 {
                corners.push(to);
            }
        }
        (!corners.is_empty()).then_some(LineSet { corners })
    }

    /// The least and the greatest slope of any of them.
    pub(super) fn slope_range(&self) -> (f64, f64) {
        let slopes = self.corners.iter().map(|&(_, slope)| slope);
        slopes.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), slope| (least.min(slope), most.max(slope)))
    }

    /// The line of this slope (or of the nearest that any of them has) in the middle between the highest and the lowest.
    pub(super) fn middle_line(&self, slope: f64) -> (f64, f64) {
        let (least, most) = self.slope_range();
        let slope = slope.clamp(least, most);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for (i, &to) in self.corners.iter().enumerate() {
            let from = self.corners[(i + self.corners.len() - 1) % self.corners.len()];
            if (from.1 - slope) * (to.1 - slope) <= 0.0 {
                // An edge of one slope is met by its neighbours at both its ends.
                let part = if to.1 == from.1 { 1.0 } else { (slope - from.1) / (to.1 - from.1) };
                let height = from.0 + part * (to.0 - from.0);
                (low, high) = (low.min(height), high.max(height));
            }
        }
        ((low + high) / 2.0, slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_leave_the_lines_between_them() {
        let lines = LineSet::between_offsets(-10.0, 10.0);
        let lines = lines.below_point((0.0, 3.0)).unwrap().below_point((1000.0, 3.5)).unwrap();
        let lines = lines.above_point((0.0, 1.0)).unwrap().above_point((1000.0, 2.5)).unwrap();
        let (height, slope) = lines.middle_line(0.0005);
        assert!((slope - 0.0005).abs() < 1e-12 && (height - 2.5).abs() < 1e-6, "{height} {slope}");
        // Not steeper than the clocks can differ.
        let (least, most) = lines.slope_range();
        assert!((least + 0.0005).abs() < 1e-9 && (most - MAX_SKEW_RATIO).abs() < 1e-12, "{least} … {most}");
        assert_eq!(lines.above_point((500.0, 4.0)), None);
    }

    #[test]
    fn a_slope_beyond_all_is_replaced_by_the_nearest() {
        let lines = LineSet::between_offsets(0.0, 1.0);
        let (height, slope) = lines.middle_line(1.0);
        assert!((height - 0.5).abs() < 1e-12 && slope == MAX_SKEW_RATIO);
    }
}
