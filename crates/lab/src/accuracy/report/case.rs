use super::document::Report;
use super::format::{RateUnit, format_size};
use crate::accuracy::keywords::CrossKind;
use crate::accuracy::row::Row;
use kumade_units::{Direction, Rate};
use std::collections::BTreeSet;

/// The path and the traffic of a row, ordered as they are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReportCase<'a> {
    path: CasePath<'a>,
    direction: Direction,
    cross_kind: &'a str,
    cross: u64,
}

/// The links that a row was measured over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CasePath<'a> {
    /// Its rate, the rate of its cross traffic and the kind.
    downstream_hop: Option<(u64, u64, &'a str)>,
    /// Burst and peak rate.
    shaper: Option<(u64, u64)>,
    bottleneck: u64,
}

impl<'a> CasePath<'a> {
    fn from_row(row: &'a Row) -> Self {
        let traffic = row.downstream_cross_bits_per_second.zip(row.downstream_cross_kind.map(CrossKind::word));
        CasePath {
            downstream_hop: row
                .downstream_bits_per_second
                .zip(traffic)
                .map(|(rate, (cross, kind))| (rate, cross, kind)),
            shaper: row.burst_bytes.zip(row.peak_bits_per_second),
            bottleneck: row.bottleneck_bits_per_second,
        }
    }

    /// The downstream hop or the token bucket, where there is one.
    fn extra_link(&self) -> Option<String> {
        match (self.downstream_hop, self.shaper) {
            (Some((rate, cross, kind)), _) => {
                Some(format!("then {} with {} {kind}", format_rate_with_unit(rate), format_rate_with_unit(cross)))
            }
            (_, Some((burst, peak))) => {
                Some(format!("after {} at {}", format_size(burst), format_rate_with_unit(peak)))
            }
            _ => None,
        }
    }
}

impl<'a> ReportCase<'a> {
    /// Headings of its cells.
    pub(super) const COLUMNS: [&'static str; 4] = ["bottleneck", "direction", "cross traffic", "at"];

    pub(super) fn from_row(row: &'a Row) -> Self {
        let (direction, kind, cross) = (row.direction, row.cross_kind.word(), row.cross_bits_per_second);
        ReportCase { path: CasePath::from_row(row), direction, cross_kind: kind, cross }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let kind = if self.cross == 0 { "none" } else { self.cross_kind };
        let bottleneck =
            [Some(format_rate_with_unit(self.path.bottleneck)), self.path.extra_link()].into_iter().flatten();
        let bottleneck = bottleneck.collect::<Vec<_>>().join(" ");
        vec![bottleneck, self.direction.to_string(), kind.to_owned(), format_rate_with_unit(self.cross)]
    }

    /// The unit that fits the bottleneck.
    pub(super) fn rate_unit(&self) -> RateUnit {
        RateUnit::for_rate(self.path.bottleneck)
    }
}

fn format_rate_with_unit(bits_per_second: u64) -> String {
    Rate::from_bits_per_second(bits_per_second).to_string()
}

/// Whether more than the level of cross traffic was varied.
pub(super) fn cases_vary(report: &Report) -> bool {
    let different = |row| (CasePath::from_row(row), row.cross_kind.word());
    report.rows.iter().map(different).collect::<BTreeSet<_>>().len() > 1
}
