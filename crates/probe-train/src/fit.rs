//! Lines through points: one that late points do not pull, and the lower envelope.

use crate::statistics::median;

/// A straight line `y = intercept + slope · x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedLine {
    /// `y` at `x = 0`.
    pub intercept: f64,
    /// By how much `y` rises for each unit of `x`.
    pub slope: f64,
}

impl FittedLine {
    /// `y` at this `x`.
    pub fn value_at(self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The line of least squares. None for fewer than two distinct x.
pub fn fit_line(points: &[(f64, f64)]) -> Option<FittedLine> {
    fit_weighted_line(points, |_| 1.0)
}

/// The line that fits most points, by Huber's reweighted least squares: a few late stamps do not pull it, and points
/// that scatter between two levels (with and without cross traffic) count in full. None for fewer than two distinct x.
pub fn fit_robust_line(points: &[(f64, f64)]) -> Option<FittedLine> {
    let mut line = fit_line(points)?;
    for _ in 0..20 {
        let residuals: Vec<f64> = points.iter().map(|&(x, y)| (y - line.value_at(x)).abs()).collect();
        // 1.48 median deviations are one standard deviation of normal scatter.
        let full_weight = median(&residuals)? * 1.48 * 2.0;
        if residuals.iter().all(|&r| r <= full_weight) {
            break;
        }
        line = fit_weighted_line(points, |i| (full_weight / residuals[i]).min(1.0))?;
    }
    Some(line)
}

fn fit_weighted_line(points: &[(f64, f64)], weight: impl Fn(usize) -> f64) -> Option<FittedLine> {
    let (mut w, mut wx, mut wy) = (0.0, 0.0, 0.0);
    for (i, &(x, y)) in points.iter().enumerate() {
        let weight = weight(i);
        w += weight;
        wx += weight * x;
        wy += weight * y;
    }
    let (mean_x, mean_y) = (wx / w, wy / w);
    let (mut xx, mut xy) = (0.0, 0.0);
    for (i, &(x, y)) in points.iter().enumerate() {
        xx += weight(i) * (x - mean_x).powi(2);
        xy += weight(i) * (x - mean_x) * (y - mean_y);
    }
    (xx > 0.0).then(|| {
        let slope = xy / xx;
        FittedLine { intercept: mean_y - slope * mean_x, slope }
    })
}

/// The corners of the lower convex hull of points given in order of x: no point lies below the polyline through
/// them. Over time and one-way delay, it is the delay of an empty path, however the clocks drift (Moon, Skelly,
/// Towsley: Estimation and Removal of Clock Skew, 1999).
pub fn lower_hull(points: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            let turns_left = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0) > 0.0;
            if turns_left {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_move_the_line() {
        let mut points: Vec<_> = (0..60).map(|i| (f64::from(i), 5.0 + 2.0 * f64::from(i))).collect();
        for late in [10, 11, 12, 50] {
            points[late].1 += 1000.0;
        }
        let line = fit_robust_line(&points).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-3 && (line.intercept - 5.0).abs() < 0.1, "{line:?}");
    }

    #[test]
    fn a_single_place_has_no_line() {
        assert_eq!(fit_robust_line(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn nothing_lies_below_the_hull() {
        let points: Vec<_> = (0..100).map(|i| (f64::from(i), f64::from(i) * 0.1 + f64::from((i * 37) % 11))).collect();
        let hull = lower_hull(points.iter().copied());
        for pair in hull.windows(2) {
            let slope = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
            for p in points.iter().filter(|p| (pair[0].0..=pair[1].0).contains(&p.0)) {
                assert!(p.1 >= pair[0].1 + slope * (p.0 - pair[0].0) - 1e-9);
            }
        }
        assert_eq!((hull[0].0, hull[hull.len() - 1].0), (0.0, 99.0));
    }
}
