//! DSCPs: those that are looked at, their names, and the ways in which networks change them (RFC 9435).

use crate::report::{DscpPattern, MarkReport, Treatment};
use kumade_packet::Dscp;

/// Two that IANA's registry names nothing for, of its pools 1 and 2.
const UNNAMED: [u8; 2] = [4, 63];

/// Those with a name, and two without.
pub(super) fn looked_at() -> impl Iterator<Item = Dscp> {
    (0..=Dscp::MAX).filter_map(Dscp::new).filter(|dscp| dscp.name().is_some() || UNNAMED.contains(&dscp.number()))
}

/// The name of a number, or the number.
pub(super) fn name(number: u8) -> String {
    Dscp::new(number).and_then(Dscp::name).unwrap_or_else(|| number.to_string())
}

/// What all DSCPs of a direction have in common; none where nothing is known.
pub(super) fn pattern(reports: &[MarkReport]) -> Option<DscpPattern> {
    let changed: Vec<_> = reports.iter().filter(|report| report.treatment.is_change()).collect();
    let is_dropping = reports.iter().any(|report| report.treatment.is_loss());
    let known = reports.iter().filter(|report| report.treatment != Treatment::NotSure).count();
    let all_became = |expected: &dyn Fn(u8) -> u8| {
        let fits = |report: &&MarkReport| {
            let name = name(expected(report.value));
            report.treatment == Treatment::NotSure || report.arrived_as.keys().all(|arrived| *arrived == name)
        };
        reports.iter().all(|report| fits(&report))
    };
    match () {
        () if known == 0 => None,
        () if is_dropping => Some(DscpPattern::SomeDropped),
        () if changed.is_empty() => Some(DscpPattern::AllKept),
        () if all_became(&|_| 0) => Some(DscpPattern::AllBleached),
        // What was the precedence of RFC 791.
        () if all_became(&|dscp| dscp & 0b00_0111) => Some(DscpPattern::PrecedenceBleached),
        () if all_became(&|dscp| dscp & 0b11_1000) => Some(DscpPattern::PrecedenceAlone),
        () => Some(DscpPattern::SomeChanged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn became(change: impl Fn(u8) -> u8) -> Option<DscpPattern> {
        let report = |dscp: Dscp| {
            let (value, arrived) = (dscp.number(), change(dscp.number()));
            let treatment = match arrived {
                arrived if arrived == value => Treatment::Kept,
                0 => Treatment::Bleached,
                _ => Treatment::Remarked,
            };
            MarkReport { mark: name(value), value, sent: 4, arrived_as: [(name(arrived), 4)].into(), treatment }
        };
        pattern(&looked_at().map(report).collect::<Vec<_>>())
    }

    #[test]
    fn the_ways_of_networks_are_known_by_what_they_leave() {
        assert_eq!(became(|dscp| dscp), Some(DscpPattern::AllKept));
        assert_eq!(became(|_| 0), Some(DscpPattern::AllBleached));
        assert_eq!(became(|dscp| dscp & 7), Some(DscpPattern::PrecedenceBleached));
        assert_eq!(became(|dscp| dscp & 56), Some(DscpPattern::PrecedenceAlone));
        assert_eq!(became(|dscp| if dscp == 46 { 0 } else { dscp }), Some(DscpPattern::SomeChanged));
        assert_eq!(pattern(&[]), None);
    }

    #[test]
    fn all_that_have_a_name_are_looked_at_and_two_more() {
        let names: Vec<_> = looked_at().map(|dscp| name(dscp.number())).collect();
        assert_eq!(names.len(), 26);
        for expected in ["CS0", "CS7", "AF11", "AF43", "EF", "VOICE-ADMIT", "LE", "NQB", "4", "63"] {
            assert!(names.iter().any(|name| name == expected), "{expected}");
        }
    }
}
