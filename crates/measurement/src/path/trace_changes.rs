//! Where on the way a mark changes, by what routers quote and what arrives.

use super::{dscp, ecn};
use crate::report::MarkChangeReport;
use std::collections::BTreeMap;

/// Where the octet that packets left with changes: between two places where it is known. `seen` has what each hop quotes of it, in order.
pub(super) fn changes(sent: u8, seen: &[(u8, Vec<u8>)], arrived: &[u8]) -> Vec<MarkChangeReport> {
    let found = MarkField::BOTH.into_iter().flat_map(|MarkField { field, part, name }| {
        let at_hops = seen.iter().filter_map(|(hop, quoted)| Some((Some(*hop), most_frequent(quoted, part)?)));
        let at_far_end = most_frequent(arrived, part).map(|value| (None, value));
        let places: Vec<_> = [(Some(0), part(sent))].into_iter().chain(at_hops).chain(at_far_end).collect();
        changes_between(&places).into_iter().map(move |[(after, from), (before, to)]| MarkChangeReport {
            field: field.to_owned(),
            from: name(from),
            to: name(to),
            after_hop: after.unwrap_or(0),
            before_hop: before,
        })
    });
    found.collect()
}

/// A part of the octet.
struct MarkField {
    field: &'static str,
    part: fn(u8) -> u8,
    /// Of an octet.
    name: fn(u8) -> String,
}

impl MarkField {
    const BOTH: [MarkField; 2] = [
        MarkField { field: "DSCP", part: |octet| octet & !0b11, name: dscp_name },
        MarkField { field: "ECN", part: |octet| octet & 0b11, name: ecn_name },
    ];
}

/// A hop, none for the far end, and a value there.
type Place = (Option<u8>, u8);

/// Where a value changes for good: what is there again further on has not been changed, but was quoted as it was to leave.
fn changes_between(places: &[Place]) -> Vec<[Place; 2]> {
    let (mut changes, mut next) = (Vec::new(), 0);
    while let Some((_, value)) = places.get(next) {
        let last = places.iter().rposition(|(_, other)| other == value).unwrap_or(next);
        if let Some(changed) = places.get(last + 1) {
            changes.push([places[last], *changed]);
        }
        next = last + 1;
    }
    changes
}

fn most_frequent(octets: &[u8], part: fn(u8) -> u8) -> Option<u8> {
    let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
    for octet in octets {
        *counts.entry(part(*octet)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(value, _)| value)
}

/// The name of an octet's DSCP.
pub(super) fn dscp_name(octet: u8) -> String {
    dscp::name(octet >> 2)
}

/// The name of its ECN codepoint.
pub(super) fn ecn_name(octet: u8) -> String {
    ecn::name(octet & 0b11)
}
