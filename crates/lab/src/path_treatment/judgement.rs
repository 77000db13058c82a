//! What a report says of a path, beside what is true of it.

use super::truth::{CarriedFate, DirectionTruth, Fate, PathTruth};
use kumade_measurement::report::{
    AddressReport, EcnGrade, EcnRequest, MarkReport, MssReport, MtuReport, NatFiltering, NatMapping,
    PathDirectionReport, PathReport, SynProbeOutcome, TcpPathReport, Treatment,
};
use kumade_packet::tcp_option;
use kumade_units::Direction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Whether a report is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It says what is true.
    Right,
    /// It does not say, or says that it is not sure.
    NotSure,
    /// It says what is not true.
    Wrong,
}

impl Verdict {
    /// In a table.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Right => "right",
            Verdict::NotSure => "not sure",
            Verdict::Wrong => "wrong",
        }
    }
}

/// One statement of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgedItem {
    /// What it is about.
    pub item: String,
    /// Whether the middlebox does something to it.
    pub is_treated: bool,
    /// What is true.
    pub truth: String,
    /// What the report says.
    pub found: String,
    /// Whether that is right.
    pub verdict: Verdict,
}

impl JudgedItem {
    pub(super) fn new(item: String, is_treated: bool, truth: String, found: String, verdict: Verdict) -> Self {
        JudgedItem { item, is_treated, truth, found, verdict }
    }

    /// Of a value that is said or not.
    pub(super) fn compare<T: PartialEq>(
        item: String,
        (untreated, truth): (T, T),
        found: Option<T>,
        describe: impl Fn(&T) -> String,
    ) -> Self {
        let verdict = match &found {
            None => Verdict::NotSure,
            Some(found) if *found == truth => Verdict::Right,
            Some(_) => Verdict::Wrong,
        };
        let is_treated = untreated != truth;
        let said = found.as_ref().map_or_else(|| "not known".to_owned(), &describe);
        JudgedItem::new(item, is_treated, describe(&truth), said, verdict)
    }
}

/// Of the whole: wrong where a statement is; not sure where one is that is about what the middlebox does. On a path that does nothing, the
/// marks of packets must be known.
pub(super) fn summarize(items: &[JudgedItem]) -> Verdict {
    let is_treated = items.iter().any(|item| item.is_treated);
    let counts = |item: &&JudgedItem| item.is_treated || !is_treated && item.item.starts_with("mark ");
    if items.iter().any(|item| item.verdict == Verdict::Wrong) {
        return Verdict::Wrong;
    }
    items.iter().filter(counts).map(|item| item.verdict).max().unwrap_or(Verdict::NotSure)
}

/// Every statement of the section on the path whose truth is known. `line_mss` is what hosts announce.
pub(super) fn judge_path(report: &PathReport, truth: &PathTruth, line_mss: u16) -> Vec<JudgedItem> {
    let mut items = Vec::new();
    for direction in Direction::BOTH {
        let found = if direction == Direction::Up { &report.up } else { &report.down };
        items.extend(judge_direction(direction, found, truth.direction(direction)));
    }
    items.extend(judge_tcp(report.tcp.as_ref(), truth, line_mss));
    items.push(judge_readiness(report, truth));
    items.push(judge_filtering(report.udp_address, truth));
    for (name, address) in [("UDP", report.udp_address), ("TCP", report.tcp_address)] {
        items.push(judge_mapping(name, address, truth.mapping));
        let found = address.map(|address: AddressReport| address.is_translated);
        let item = format!("address of {name}");
        items.push(JudgedItem::compare(item, (false, truth.mapping.is_some()), found, |translated| {
            if *translated { "translated".into() } else { "kept".into() }
        }));
    }
    items
}

fn judge_mapping(name: &str, found: Option<AddressReport>, truth: Option<NatMapping>) -> JudgedItem {
    let found = found.map(|address| address.mapping).filter(|mapping| mapping.is_some() || truth.is_none());
    JudgedItem::compare(format!("mapping of {name}"), (None, truth), found, |mapping| {
        mapping.map_or_else(|| "none".to_owned(), |mapping| mapping.to_string())
    })
}

/// Of UDP, with NAT or without.
fn judge_filtering(found: Option<AddressReport>, truth: &PathTruth) -> JudgedItem {
    let untreated = if truth.mapping.is_some() { NatFiltering::EndpointIndependent } else { truth.filtering };
    let found = found.and_then(|address| address.filtering);
    JudgedItem::compare("filtering of UDP".into(), (untreated, truth.filtering), found, NatFiltering::to_string)
}

fn judge_direction(direction: Direction, found: &PathDirectionReport, truth: &DirectionTruth) -> Vec<JudgedItem> {
    let ecn = found.ecn.iter().flatten().map(|mark| (mark, mark.value, 0, 0b11));
    let dscp = found.dscp.iter().flatten().map(|mark| (mark, mark.value << 2, 2, 0b11_1111));
    let mut items: Vec<_> = ecn
        .chain(dscp)
        .filter_map(|(mark, octet, shift, mask)| {
            let fate = truth.fields.get(&octet)?;
            let arrived = fate.0.iter().map(|(octet, part)| (octet >> shift & mask, *part));
            let mut fields = Fate::default();
            arrived.for_each(|(field, part)| *fields.0.entry(field).or_default() += part);
            Some(judge_mark(direction, mark, &fields))
        })
        .collect();
    for (name, marks) in [("ECN", &found.ecn), ("DSCP", &found.dscp)] {
        if marks.is_none() {
            let item = format!("mark {direction}, {name}");
            items.push(JudgedItem::new(item, false, "looked at".into(), "not known".into(), Verdict::NotSure));
        }
    }
    items.push(judge_mtu(direction, found.mtu, truth));
    items
}

/// `fate` has the fields with which packets of this mark arrive.
fn judge_mark(direction: Direction, mark: &MarkReport, fate: &Fate) -> JudgedItem {
    let (sent, lost) = (mark.value, fate.lost_part());
    let expected = match fate.certain() {
        Some(field) if field == sent => Treatment::Kept,
        Some(0) => Treatment::Bleached,
        Some(_) => Treatment::Remarked,
        None if lost >= 1.0 => Treatment::Dropped,
        None if lost > 0.0 => Treatment::PartlyDropped,
        None => Treatment::PartlyRemarked,
    };
    let is_chance = matches!(expected, Treatment::PartlyDropped | Treatment::PartlyRemarked);
    let verdict = match mark.treatment {
        Treatment::NotSure => Verdict::NotSure,
        found if found == expected => Verdict::Right,
        // Of a few packets, chance may treat all alike; it does not lose what is not lost.
        Treatment::Dropped | Treatment::PartlyDropped if is_chance && lost == 0.0 => Verdict::Wrong,
        _ if is_chance => Verdict::NotSure,
        _ => Verdict::Wrong,
    };
    let truth = serde_json::to_string(&expected).unwrap_or_default();
    let item = format!("mark {direction}, {}", mark.mark);
    JudgedItem::new(item, expected != Treatment::Kept, truth.trim_matches('"').to_owned(), mark.to_string(), verdict)
}

fn judge_mtu(direction: Direction, found: Option<MtuReport>, truth: &DirectionTruth) -> JudgedItem {
    const LINE_MTU: u32 = 1500;
    let mtu = u32::from(truth.mtu);
    let is_treated = mtu < LINE_MTU;
    let verdict = match found {
        None => Verdict::NotSure,
        Some(MtuReport { passed_bytes, lost_bytes, has_icmp }) => {
            let contradicts = passed_bytes > mtu
                || lost_bytes.is_some_and(|lost| lost <= mtu)
                || is_treated && has_icmp == Some(truth.is_black_hole);
            match () {
                () if contradicts => Verdict::Wrong,
                () if is_treated && (lost_bytes.is_none() || has_icmp.is_none()) => Verdict::NotSure,
                () => Verdict::Right,
            }
        }
    };
    let silently = if truth.is_black_hole { ", without ICMP" } else { "" };
    let found = found.map_or_else(|| "not known".into(), |found| format!("{found:?}"));
    JudgedItem::new(format!("MTU {direction}"), is_treated, format!("{mtu} bytes{silently}"), found, verdict)
}

fn judge_tcp(found: Option<&TcpPathReport>, truth: &PathTruth, line_mss: u16) -> Vec<JudgedItem> {
    let (up, down) = (&truth.up.syn, &truth.down.syn);
    let syn = found.and_then(|tcp| tcp.syn.as_ref());
    let requested = syn.and_then(|syn| syn.ecn_sent).unwrap_or(EcnRequest::Classic);
    // A system whose SYN is lost repeats it without (RFC 3168 §6.1.1.1).
    let arrives = if up.is_dropped || up.loses_ecn { EcnRequest::None } else { requested };
    let arrived = syn.filter(|syn| syn.ecn_sent.is_some()).map(|syn| syn.ecn_arrived);
    let ecn = JudgedItem::compare("ECN of the SYN".into(), (requested, arrives), arrived, |ecn| format!("{ecn:?}"));
    let has_ecn = arrives == EcnRequest::Classic && !down.loses_ecn && !down.is_dropped;
    let negotiated = JudgedItem::compare("ECN of TCP".into(), (true, has_ecn), found.map(|tcp| tcp.has_ecn), |has| {
        if *has { "agreed".into() } else { "not agreed".into() }
    });
    let mss = |name: &str, truth: Option<u16>, found: Option<MssReport>| {
        let truth = truth.unwrap_or(line_mss);
        let found = found.filter(|mss| mss.is_clamped.is_some()).and_then(|mss| mss.arrived);
        let describe = |bytes: &u32| format!("{bytes} bytes");
        JudgedItem::compare(format!("MSS of the {name}"), (line_mss.into(), u32::from(truth)), found, describe)
    };
    let dropped_mss = |fate: &super::truth::SynFate| if fate.is_dropped { None } else { fate.mss };
    let mut items = vec![
        ecn,
        negotiated,
        mss("SYN", dropped_mss(up), syn.map(|syn| syn.mss)),
        mss("SYN-ACK", dropped_mss(down), found.map(|tcp| tcp.syn_ack_mss)),
    ];
    items.extend(judge_options(found, truth));
    items.extend(judge_syn_probes(found, truth));
    items
}

/// What became of SYNs that carried something unusual.
fn judge_syn_probes(found: Option<&TcpPathReport>, truth: &PathTruth) -> Vec<JudgedItem> {
    let (up, down) = (&truth.up.syn, &truth.down.syn);
    let carried = |kind: u8| up.carried.get(&kind).copied().unwrap_or(CarriedFate::Kept);
    let ecn = match (up.is_dropped, up.loses_ecn) {
        (true, _) => CarriedFate::Dropped,
        (_, true) => CarriedFate::Removed,
        _ => CarriedFate::Kept,
    };
    let probes =
        [("MPTCP", carried(tcp_option::MULTIPATH)), ("TCP Fast Open", carried(tcp_option::FAST_OPEN)), ("ECN", ecn)];
    let judge = |(name, fate): (&str, CarriedFate)| {
        let probes = found.iter().flat_map(|tcp| &tcp.syn_probes);
        let outcome = probes.into_iter().find(|probe| probe.carried == name).map(|probe| probe.outcome);
        // Hosts repeat a SYN that is lost, some of them without what it carried.
        let is_lost = fate == CarriedFate::Dropped || up.is_dropped || down.is_dropped;
        let verdict = match (outcome, fate) {
            (None, _) => Verdict::NotSure,
            (Some(SynProbeOutcome::NotOpened), _) if is_lost => Verdict::Right,
            (Some(SynProbeOutcome::NotOpened), _) => Verdict::NotSure,
            (Some(SynProbeOutcome::Kept), CarriedFate::Kept) => Verdict::Right,
            (Some(SynProbeOutcome::Removed), CarriedFate::Removed | CarriedFate::Dropped) => Verdict::Right,
            _ => Verdict::Wrong,
        };
        let said = outcome.map_or_else(|| "not known".to_owned(), |outcome| outcome.to_string());
        let truth = format!("{fate:?}").to_lowercase();
        JudgedItem::new(format!("SYN with {name}"), fate != CarriedFate::Kept, truth, said, verdict)
    };
    let items = probes.map(judge).into_iter();
    // A host whose connections ask for ECN anyway sends no such SYN.
    items.filter(|item| item.item != "SYN with ECN" || item.verdict != Verdict::NotSure).collect()
}

/// The options that Linux sends, by their kinds, as sent in a SYN and as agreed to.
const LINUX_OPTIONS: [(u8, &str, &str); 3] = [
    (tcp_option::TIMESTAMPS, "time stamps", "time stamps"),
    (tcp_option::SACK_PERMITTED, "SACK permitted", "SACK"),
    (tcp_option::WINDOW_SCALE, "window scale", "window scale"),
];

fn judge_options(found: Option<&TcpPathReport>, truth: &PathTruth) -> Vec<JudgedItem> {
    let (up, down) = (&truth.up.syn.removed_options, &truth.down.syn.removed_options);
    let removed: BTreeSet<String> =
        LINUX_OPTIONS.iter().filter(|(kind, ..)| up.contains(kind)).map(|(_, name, _)| (*name).to_owned()).collect();
    let lost = |kind: &u8| up.contains(kind) || down.contains(kind);
    let agreed: BTreeSet<String> =
        LINUX_OPTIONS.iter().filter(|(kind, ..)| !lost(kind)).map(|(.., name)| (*name).to_owned()).collect();
    let all = LINUX_OPTIONS.iter().map(|(.., name)| (*name).to_owned()).collect();
    let syn = found.and_then(|tcp| tcp.syn.as_ref());
    let said: Option<BTreeSet<String>> =
        syn.and_then(|syn| syn.options_removed.as_ref()).map(|names| names.iter().cloned().collect());
    let used = found.map(|tcp| tcp.options.iter().cloned().collect());
    let list = |names: &BTreeSet<String>| match names.len() {
        0 => "none".to_owned(),
        _ => names.iter().cloned().collect::<Vec<_>>().join(", "),
    };
    let mut items = vec![
        JudgedItem::compare("options removed from the SYN".into(), (BTreeSet::new(), removed), said, list),
        JudgedItem::compare("options agreed to".into(), (all, agreed), used, list),
    ];
    // No statement of the report is about it.
    for direction in Direction::BOTH.into_iter().filter(|way| truth.direction(*way).syn.has_other_sequence) {
        let item = format!("sequence numbers {direction}");
        items.push(JudgedItem::new(item, true, "shifted".into(), "not known".into(), Verdict::NotSure));
    }
    items
}

/// For which ECN the path is ready; not judged where chance decides.
fn judge_readiness(report: &PathReport, truth: &PathTruth) -> JudgedItem {
    let both = [&truth.up, &truth.down];
    let keeps = |octet: u8| both.iter().all(|way| way.fields.get(&octet).and_then(Fate::certain) == Some(octet));
    let loses_flags = |way: &&DirectionTruth| way.syn.loses_ecn || way.syn.is_dropped;
    let grade = match () {
        () if !(keeps(0) && keeps(2) && keeps(3)) || both.iter().any(loses_flags) => EcnGrade::None,
        () if !keeps(1) => EcnGrade::Classic,
        () => EcnGrade::L4s,
    };
    let is_chance =
        |way: &&DirectionTruth| way.fields.values().any(|fate| fate.certain().is_none() && fate.lost_part() < 1.0);
    let found = report.ecn_readiness.as_ref();
    let said = found.map(|found| found.grade).filter(|grade| *grade != EcnGrade::Unknown);
    // Of L4S, it may not be sure.
    let is_unsure = found.is_some_and(|found| found.sentence.contains("not sure"));
    let said = said.filter(|said| !(is_unsure && *said == EcnGrade::Classic && grade == EcnGrade::L4s));
    let mut item =
        JudgedItem::compare("ECN readiness".into(), (EcnGrade::L4s, grade), said, |grade| format!("{grade:?}"));
    if both.iter().any(is_chance) && item.verdict == Verdict::Wrong {
        item.verdict = Verdict::NotSure;
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(value: u8, sent: u32, arrived: &[(&str, u32)], treatment: Treatment) -> MarkReport {
        let arrived_as = arrived.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        MarkReport { mark: "ECT(0)".into(), value, sent, arrived_as, treatment }
    }

    fn verdict(fate: &[(u8, f64)], treatment: Treatment) -> Verdict {
        let fate = Fate(fate.iter().copied().collect());
        judge_mark(Direction::Up, &mark(2, 12, &[], treatment), &fate).verdict
    }

    #[test]
    fn a_mark_is_judged_by_what_happens_to_it() {
        use Treatment::{Bleached, Dropped, Kept, NotSure, PartlyDropped, PartlyRemarked, Remarked};
        let (kept, bleached, lost, half) = (&[(2, 1.0)][..], &[(0, 1.0)][..], &[][..], &[(2, 0.5), (0, 0.5)][..]);
        for (fate, right, wrong) in [
            (kept, Kept, Bleached),
            (bleached, Bleached, Remarked),
            (lost, Dropped, Kept),
            (half, PartlyRemarked, Dropped),
        ] {
            let found = [right, wrong, NotSure].map(|treatment| verdict(fate, treatment));
            assert_eq!(found, [Verdict::Right, Verdict::Wrong, Verdict::NotSure], "{fate:?}");
        }
        assert_eq!(verdict(half, Kept), Verdict::NotSure, "a few packets may all be kept by chance");
        assert_eq!(verdict(&[(2, 0.5)], PartlyDropped), Verdict::Right);
    }

    #[test]
    fn an_mtu_is_judged_by_its_bounds_and_by_what_was_told() {
        let truth = |mtu, is_black_hole| {
            let (fields, syn) = Default::default();
            DirectionTruth { fields, syn, mtu, is_black_hole }
        };
        let verdict = |truth: &DirectionTruth, passed_bytes, lost_bytes, has_icmp| {
            judge_mtu(Direction::Up, Some(MtuReport { passed_bytes, lost_bytes, has_icmp }), truth).verdict
        };
        let (line, narrow, hole) = (truth(1500, false), truth(1400, false), truth(1400, true));
        assert_eq!(verdict(&line, 1500, None, None), Verdict::Right);
        assert_eq!(verdict(&line, 1492, Some(1500), Some(false)), Verdict::Wrong);
        assert_eq!(verdict(&narrow, 1400, Some(1420), Some(true)), Verdict::Right);
        assert_eq!(verdict(&narrow, 1400, Some(1420), Some(false)), Verdict::Wrong);
        assert_eq!(verdict(&narrow, 1500, None, None), Verdict::Wrong);
        assert_eq!(verdict(&hole, 1400, Some(1412), Some(false)), Verdict::Right);
        assert_eq!(verdict(&hole, 1400, Some(1412), None), Verdict::NotSure);
        assert_eq!(judge_mtu(Direction::Up, None, &line).verdict, Verdict::NotSure);
    }

    #[test]
    fn a_whole_is_as_good_as_what_is_about_the_middlebox() {
        let item =
            |item: &str, is_treated, verdict| JudgedItem::new(item.into(), is_treated, "".into(), "".into(), verdict);
        let (right, not_sure, wrong) = (Verdict::Right, Verdict::NotSure, Verdict::Wrong);
        assert_eq!(summarize(&[item("mark a", true, right), item("MTU up", false, not_sure)]), right);
        assert_eq!(summarize(&[item("mark a", true, not_sure), item("MTU up", false, right)]), not_sure);
        assert_eq!(summarize(&[item("mark a", true, right), item("MTU up", false, wrong)]), wrong);
        assert_eq!(summarize(&[item("mark a", false, not_sure), item("MTU up", false, right)]), not_sure);
        assert_eq!(summarize(&[]), not_sure);
    }
}
