use super::document::Report;
use super::format::{Unit, size};
use crate::accuracy::row::Row;
use std::collections::BTreeSet;
use units::Rate;

/// What a row was measured on, in the order in which cases are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case<'a> {
    path: Path<'a>,
    direction: &'a str,
    kind: &'a str,
    cross: u64,
}

/// The links that a row was measured over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Path<'a> {
    /// Rate, others' rate and their kind of traffic.
    later: Option<(u64, u64, &'a str)>,
    /// Burst and peak rate.
    shaper: Option<(u64, u64)>,
    bottleneck: u64,
}

impl<'a> Path<'a> {
    fn of(row: &'a Row) -> Self {
        let traffic = row.later_cross_bits_per_second.zip(row.later_cross_kind.as_deref());
        Path {
            later: row.later_bits_per_second.zip(traffic).map(|(rate, (cross, kind))| (rate, cross, kind)),
            shaper: row.burst_bytes.zip(row.peak_bits_per_second),
            bottleneck: row.bottleneck_bits_per_second,
        }
    }

    /// What there is besides a plain bottleneck.
    fn besides(&self) -> Option<String> {
        match (self.later, self.shaper) {
            (Some((rate, cross, kind)), _) => Some(format!("then {} with {} {kind}", write(rate), write(cross))),
            (_, Some((burst, peak))) => Some(format!("after {} at {}", size(burst), write(peak))),
            _ => None,
        }
    }
}

impl<'a> Case<'a> {
    /// Headings of its cells.
    pub(super) const COLUMNS: [&'static str; 4] = ["bottleneck", "way", "traffic", "cross"];

    pub(super) fn of(row: &'a Row) -> Self {
        let (direction, kind, cross) = (&row.direction, &row.cross_kind, row.cross_bits_per_second);
        Case { path: Path::of(row), direction, kind, cross }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let kind = if self.cross == 0 { "none" } else { self.kind };
        let bottleneck = [Some(write(self.path.bottleneck)), self.path.besides()].into_iter().flatten();
        let bottleneck = bottleneck.collect::<Vec<_>>().join(" ");
        vec![bottleneck, self.direction.to_owned(), kind.to_owned(), write(self.cross)]
    }

    /// The unit that fits the bottleneck.
    pub(super) fn unit(&self) -> Unit {
        Unit::fitting(self.path.bottleneck)
    }
}

fn write(bits_per_second: u64) -> String {
    Rate::from_bits_per_second(bits_per_second).to_string()
}

/// Whether more than the level of cross traffic was varied.
pub(super) fn vary(report: &Report) -> bool {
    let different = |row| (Path::of(row), row.cross_kind.as_str());
    report.rows.iter().map(different).collect::<BTreeSet<_>>().len() > 1
}
