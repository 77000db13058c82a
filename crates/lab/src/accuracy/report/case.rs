use super::document::Report;
use super::format::{Unit, size};
use crate::accuracy::row::Row;
use crate::accuracy::words::CrossKind;
use kumade_units::{Direction, Rate};
use std::collections::BTreeSet;

/// The path and the traffic of a row, ordered as they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Case<'a> {
    path: Path<'a>,
    direction: Direction,
    kind: &'a str,
    cross: u64,
}

/// The links that a row was measured over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Path<'a> {
    /// Its rate, the rate of its cross traffic and the kind.
    downstream_hop: Option<(u64, u64, &'a str)>,
    /// Burst and peak rate.
    shaper: Option<(u64, u64)>,
    bottleneck: u64,
}

impl<'a> Path<'a> {
    fn of(row: &'a Row) -> Self {
        let traffic = row.downstream_cross_bits_per_second.zip(row.downstream_cross_kind.map(CrossKind::word));
        Path {
            downstream_hop: row
                .downstream_bits_per_second
                .zip(traffic)
                .map(|(rate, (cross, kind))| (rate, cross, kind)),
            shaper: row.burst_bytes.zip(row.peak_bits_per_second),
            bottleneck: row.bottleneck_bits_per_second,
        }
    }

    /// The downstream hop or the token bucket, where there is one.
    fn besides(&self) -> Option<String> {
        match (self.downstream_hop, self.shaper) {
            (Some((rate, cross, kind)), _) => Some(format!("then {} with {} {kind}", write(rate), write(cross))),
            (_, Some((burst, peak))) => Some(format!("after {} at {}", size(burst), write(peak))),
            _ => None,
        }
    }
}

impl<'a> Case<'a> {
    /// Headings of its cells.
    pub(super) const COLUMNS: [&'static str; 4] = ["bottleneck", "direction", "cross traffic", "at"];

    pub(super) fn of(row: &'a Row) -> Self {
        let (direction, kind, cross) = (row.direction, row.cross_kind.word(), row.cross_bits_per_second);
        Case { path: Path::of(row), direction, kind, cross }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let kind = if self.cross == 0 { "none" } else { self.kind };
        let bottleneck = [Some(write(self.path.bottleneck)), self.path.besides()].into_iter().flatten();
        let bottleneck = bottleneck.collect::<Vec<_>>().join(" ");
        vec![bottleneck, self.direction.to_string(), kind.to_owned(), write(self.cross)]
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
    let different = |row| (Path::of(row), row.cross_kind.word());
    report.rows.iter().map(different).collect::<BTreeSet<_>>().len() > 1
}
