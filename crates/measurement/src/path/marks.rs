//! Which marked packets are sent in a direction, and what became of them.
//!
//! Packets of all marks are sent in one train, in random order, so that chance, a queue or a burst of losses meets all marks alike. Those with
//! neither DSCP nor ECN are what the others are compared with. What is still open after a train is sent again, with as many of these.

use super::ecn::ECN_CODEPOINTS;
use super::fisher::{LossCount, MAX_CHANCE, loss_p_value};
use super::{dscp, ecn};
use crate::report::{MarkReport, Treatment};
use kumade_packet::{DsField, Dscp, Ecn};
use kumade_probe_train::{Mark, MarkedRecord, MarkedTrain};
use kumade_units::Span;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// Packets of each ECN codepoint in a train: enough to see what happens to one in ten …
const PACKETS_PER_ECN_CODEPOINT: u32 = 12;
/// … of each DSCP: four that are all lost, where none of the others is, are no chance …
const PACKETS_PER_DSCP: u32 = 4;
/// … and without either.
const REFERENCE_PACKETS: u32 = 36;
/// From each to the next: all of a train pass 300 kbit/s as they are sent.
const INTERVAL: Span = Span::from_millis(2);
/// Trains in a direction: on a path that loses three in ten packets, all twelve of a codepoint are lost by chance once in two million times.
const MAX_TRAINS: u32 = 4;
/// With so many that arrived, what becomes of a mark is known.
const MIN_ARRIVED: u32 = 2;

/// What became of the packets of one mark.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MarkTally {
    pub(super) sent: u32,
    /// By the octet with which they arrived; none where the receiver's system does not say.
    pub(super) arrived: BTreeMap<Option<u8>, u32>,
}

impl MarkTally {
    fn arrived_count(&self) -> u32 {
        self.arrived.values().sum()
    }

    fn loss(&self) -> LossCount {
        LossCount { sent: self.sent, lost: self.sent.saturating_sub(self.arrived_count()) }
    }
}

/// The marked packets of a direction, by their octets.
#[derive(Debug, Clone)]
pub(crate) struct MarkProbe {
    tallies: BTreeMap<u8, MarkTally>,
    trains: u32,
    random: Pcg64Mcg,
    /// TTLs or hop limits that arrived, and how often.
    hop_limits: BTreeMap<u8, u32>,
}

impl MarkProbe {
    pub(crate) fn new(seed: u64) -> Self {
        MarkProbe {
            tallies: BTreeMap::new(),
            trains: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
            hop_limits: BTreeMap::new(),
        }
    }

    /// The next train; none once all is known that can be.
    pub(crate) fn next_train(&mut self) -> Option<MarkedTrain> {
        if self.trains == MAX_TRAINS {
            return None;
        }
        let mut counts: Vec<(u8, u32)> =
            planned_counts().into_iter().filter(|(octet, _)| self.is_open(*octet)).collect();
        if counts.is_empty() {
            return None;
        }
        counts.push((0, REFERENCE_PACKETS));
        let mark = |octet| Mark { ds_field: octet, hop_limit: None };
        let mut marks: Vec<Mark> =
            counts.into_iter().flat_map(|(octet, count)| vec![mark(octet); count as usize]).collect();
        marks.shuffle(&mut self.random);
        self.trains += 1;
        Some(MarkedTrain { interval: INTERVAL, marks })
    }

    /// Takes in what became of a train. Each of its packets counts once, whatever a record of the far end says, and others do not.
    pub(crate) fn record_train(&mut self, train: &MarkedTrain, record: &MarkedRecord) {
        let octet = |index: u32| train.marks.get(index as usize).map(|mark| mark.ds_field);
        let mut sent: BTreeMap<u32, u8> =
            record.sent.iter().filter_map(|index| Some((*index, octet(*index)?))).collect();
        for octet in sent.values() {
            self.tallies.entry(*octet).or_default().sent += 1;
        }
        for arrival in &record.arrivals {
            let Some(octet) = sent.remove(&arrival.index) else { continue };
            *self.tallies.entry(octet).or_default().arrived.entry(arrival.ds_field).or_default() += 1;
            if let Some(hops) = arrival.hop_limit {
                *self.hop_limits.entry(hops).or_default() += 1;
            }
        }
    }

    /// Whether any packet has arrived.
    pub(crate) fn has_arrivals(&self) -> bool {
        self.tallies.values().any(|tally| tally.arrived_count() > 0)
    }

    /// The TTL or hop limit with which most packets arrived.
    pub(crate) fn arrived_hop_limit(&self) -> Option<u8> {
        self.hop_limits.iter().max_by_key(|(_, count)| **count).map(|(hops, _)| *hops)
    }

    /// EF and ECT(0), where nothing is known: what needs them most.
    pub(crate) const USUAL_TRACED_OCTET: u8 = 46 << 2 | 0b10;

    /// The octet whose way is to be followed: a DSCP and an ECN codepoint that are changed; else a mark of packets that are dropped; else the
    /// usual.
    pub(crate) fn octet_to_trace(&self) -> u8 {
        let (dscp, ecn) = (self.dscp_reports(), self.ecn_reports());
        let usual = [Self::USUAL_TRACED_OCTET >> 2, Self::USUAL_TRACED_OCTET & 0b11];
        // What is usual goes first, and what is zero last: a change of it is less often seen.
        let find = |reports: &[MarkReport], usual: u8, is_sought: &dyn Fn(Treatment) -> bool| {
            let found = reports.iter().filter(|report| is_sought(report.treatment)).map(|report| report.value);
            found.min_by_key(|value| (*value == 0, *value != usual, *value))
        };
        let changed = [find(&dscp, usual[0], &Treatment::is_change), find(&ecn, usual[1], &Treatment::is_change)];
        let dropped = [find(&dscp, usual[0], &Treatment::is_loss), find(&ecn, usual[1], &Treatment::is_loss)];
        let is_passed = |reports: &[MarkReport], value: u8| {
            reports.iter().any(|report| report.value == value && !report.treatment.is_loss())
        };
        let or_usual = |found: Option<u8>, reports: &[MarkReport], usual: u8| {
            found.unwrap_or(if is_passed(reports, usual) { usual } else { 0 })
        };
        match (changed, dropped) {
            ([None, None], [Some(dropped), _]) => dropped << 2,
            ([None, None], [None, Some(dropped)]) => dropped,
            ([of_dscp, of_ecn], _) => or_usual(of_dscp, &dscp, usual[0]) << 2 | or_usual(of_ecn, &ecn, usual[1]),
        }
    }

    /// What became of each ECN codepoint, with DSCP zero.
    pub(crate) fn ecn_reports(&self) -> Vec<MarkReport> {
        let field = |octet: u8| octet & 0b11;
        ECN_CODEPOINTS.into_iter().map(|ecn| self.report(DsField::from(ecn).octet(), field, ecn::name)).collect()
    }

    /// What became of each DSCP, without ECN.
    pub(crate) fn dscp_reports(&self) -> Vec<MarkReport> {
        let field = |octet: u8| octet >> 2;
        dscp::looked_at().map(|dscp| self.report(DsField::new(dscp, Ecn::NotEct).octet(), field, dscp::name)).collect()
    }

    /// The part of the octet that `field` takes is looked at, which `name` names.
    fn report(&self, octet: u8, field: impl Fn(u8) -> u8, name: impl Fn(u8) -> String) -> MarkReport {
        let tally = self.tallies.get(&octet).cloned().unwrap_or_default();
        let mut arrived: BTreeMap<Option<u8>, u32> = BTreeMap::new();
        for (octet, count) in &tally.arrived {
            *arrived.entry(octet.map(&field)).or_default() += count;
        }
        let reference = (octet != 0).then(|| self.tallies.get(&0).map(MarkTally::loss).unwrap_or_default());
        let sent_as = field(octet);
        let treatment = classify_treatment(sent_as, &arrived, tally.loss(), reference);
        let arrived_as = arrived.iter().filter_map(|(value, count)| Some((name((*value)?), *count))).collect();
        MarkReport { mark: name(sent_as), value: sent_as, sent: tally.sent, arrived_as, treatment }
    }

    /// Whether more packets of this mark would tell more.
    fn is_open(&self, octet: u8) -> bool {
        let Some(tally) = self.tallies.get(&octet) else { return true };
        let reference = self.tallies.get(&0).map(MarkTally::loss).unwrap_or_default();
        let (loss, arrived) = (tally.loss(), tally.arrived_count());
        loss.lost > 0 && arrived < MIN_ARRIVED && loss_p_value(loss, reference) > MAX_CHANCE
    }
}

/// The octets that are looked at, and how many packets of each a train has, but for those without a mark.
fn planned_counts() -> Vec<(u8, u32)> {
    let ecn = ECN_CODEPOINTS.into_iter().map(|ecn| (DsField::from(ecn).octet(), PACKETS_PER_ECN_CODEPOINT));
    let dscp = dscp::looked_at().map(|dscp: Dscp| (DsField::new(dscp, Ecn::NotEct).octet(), PACKETS_PER_DSCP));
    ecn.chain(dscp).filter(|(octet, _)| *octet != 0).collect()
}

/// What the path does to packets with this mark, of which so many arrived with each; `reference` are those without a mark, which are none
/// for these themselves.
fn classify_treatment(
    sent_as: u8,
    arrived: &BTreeMap<Option<u8>, u32>,
    loss: LossCount,
    reference: Option<LossCount>,
) -> Treatment {
    let count = |keep: &dyn Fn(u8) -> bool| -> u32 {
        arrived.iter().filter(|(value, _)| value.is_some_and(keep)).map(|(_, count)| *count).sum()
    };
    let (kept, changed) = (count(&|value| value == sent_as), count(&|value| value != sent_as));
    let is_lost_more = reference.is_some_and(|reference| loss_p_value(loss, reference) <= MAX_CHANCE);
    match (kept, changed) {
        (0, 0) if is_lost_more && arrived.is_empty() => Treatment::Dropped,
        (0, 0) => Treatment::NotSure,
        (_, 0) if is_lost_more => Treatment::PartlyDropped,
        (_, 0) => Treatment::Kept,
        (0, _) if count(&|value| value != 0) == 0 => Treatment::Bleached,
        (0, _) => Treatment::Remarked,
        (_, _) => Treatment::PartlyRemarked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::MarkedArrival;
    use rand::RngExt;

    /// What is found on a path that makes this of each octet, and loses this part of all packets.
    fn probe(treat: impl Fn(u8) -> Option<u8>, loss: f64, seed: u64) -> (MarkProbe, usize) {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0xabcd);
        let (mut probe, mut packets) = (MarkProbe::new(seed), 0);
        while let Some(train) = probe.next_train() {
            assert_eq!(train.check(), Ok(()));
            packets += train.marks.len();
            let arrival = |(index, mark): (u32, &Mark)| {
                let is_lost = random.random_bool(loss);
                let ds_field = treat(mark.ds_field).filter(|_| !is_lost)?;
                Some(MarkedArrival { index, ds_field: Some(ds_field), hop_limit: Some(60) })
            };
            let record = MarkedRecord {
                sent: (0..train.marks.len() as u32).collect(),
                arrivals: (0..).zip(&train.marks).filter_map(arrival).collect(),
            };
            probe.record_train(&train, &record);
        }
        (probe, packets)
    }

    fn treatments(reports: &[MarkReport]) -> Vec<(&str, Treatment)> {
        reports.iter().map(|report| (report.mark.as_str(), report.treatment)).collect()
    }

    fn ecn(treat: impl Fn(u8) -> Option<u8>, loss: f64, seed: u64) -> Vec<Treatment> {
        probe(treat, loss, seed).0.ecn_reports().iter().map(|report| report.treatment).collect()
    }

    #[test]
    fn a_mark_that_is_changed_is_followed_and_else_one_that_is_dropped() {
        let traced = |treat: fn(u8) -> Option<u8>| probe(treat, 0.0, 3).0.octet_to_trace();
        const EF: u8 = 46 << 2;
        assert_eq!(traced(Some), EF | 0b10);
        assert_eq!(traced(|octet| Some(octet & 0b11)), EF | 0b10);
        assert_eq!(traced(|octet| Some(if octet == 8 << 2 { 0 } else { octet })), 8 << 2 | 0b10);
        assert_eq!(traced(|octet| Some(if octet == 0b01 { 0 } else { octet })), EF | 0b01);
        assert_eq!(traced(|octet| (octet != 0b11).then_some(octet)), 0b11);
        assert_eq!(traced(|octet| (octet != 48 << 2).then_some(octet)), 48 << 2);
        // What drops EF does not hide what bleaches ECN.
        assert_eq!(traced(|octet| (octet != EF).then_some(octet & !0b11)), 0b10);
    }

    #[test]
    fn a_path_that_passes_all_is_known_after_one_short_train() {
        let (probe, packets) = probe(Some, 0.0, 1);
        assert!(packets * MarkedTrain::PACKET_BYTES as usize <= 13_000, "{packets}");
        let (ecn, dscp) = (probe.ecn_reports(), probe.dscp_reports());
        assert!(ecn.iter().chain(&dscp).all(|report| report.treatment == Treatment::Kept), "{ecn:?} {dscp:?}");
        let counts = |report: &MarkReport| (report.mark.clone(), report.sent, report.arrived_as.clone());
        assert_eq!(counts(&ecn[1]), ("ECT(0)".to_owned(), 12, [("ECT(0)".to_owned(), 12)].into()));
        assert_eq!((ecn.len(), dscp.len()), (4, 26));
        assert_eq!(probe.arrived_hop_limit(), Some(60));
    }

    #[test]
    fn whatever_is_done_to_a_mark_is_told_beside_losses_by_chance() {
        use Treatment::{Bleached, Dropped, Kept, Remarked};
        for loss in [0.0, 0.05, 0.15, 0.3] {
            for seed in 0..40 {
                let found = ecn(|octet| Some(octet & !0b11), loss, seed);
                assert_eq!(found, [Kept, Bleached, Bleached, Bleached], "bleached, {loss} {seed}");
                let found = ecn(|octet| Some(octet).filter(|octet| octet & 0b11 != 0b01), loss, seed);
                assert_eq!(found, [Kept, Kept, Dropped, Kept], "ECT(1) dropped, {loss} {seed}");
                let found = ecn(|octet| Some(if octet & 0b11 == 0b10 { octet | 0b11 } else { octet }), loss, seed);
                assert_eq!(found, [Kept, Remarked, Kept, Kept], "ECT(0) to CE, {loss} {seed}");
                let found = probe(|octet| Some(octet & 0b0001_1111), loss, seed).0.dscp_reports();
                for (name, treatment) in treatments(&found) {
                    let expected = match name {
                        "CS0" | "LE" | "4" => Kept,
                        name if name.starts_with("CS") => Bleached,
                        _ => Remarked,
                    };
                    assert_eq!(treatment, expected, "precedence cleared, {name} {loss} {seed}");
                }
                let found = probe(|octet| Some(octet).filter(|octet| octet >> 2 != 46), loss, seed).0.dscp_reports();
                for (name, treatment) in treatments(&found) {
                    assert_eq!(treatment, if name == "EF" { Dropped } else { Kept }, "EF, {name} {loss} {seed}");
                }
            }
        }
    }

    /// Of 30 marks on 300 paths each, none is said to be dropped that is not, and hardly any remains open.
    #[test]
    fn losses_by_chance_are_no_treatment() {
        for loss in [0.05, 0.1, 0.2, 0.3] {
            let mut open = 0;
            for seed in 0..300 {
                let (probe, _) = probe(Some, loss, seed);
                for report in probe.ecn_reports().iter().chain(&probe.dscp_reports()) {
                    open += usize::from(report.treatment == Treatment::NotSure);
                    assert!(
                        matches!(report.treatment, Treatment::Kept | Treatment::NotSure),
                        "{loss} {seed} {report:?}"
                    );
                }
            }
            assert!(open <= 3, "{loss}: {open} of 9000");
        }
    }

    #[test]
    fn what_cannot_be_told_is_not_said() {
        let (nothing, _) = probe(|_| None, 0.0, 3);
        assert!(!nothing.has_arrivals());
        assert!(nothing.ecn_reports().iter().all(|report| report.treatment == Treatment::NotSure));
        // A part of them; where a queue marks some; and where the receiver's system says nothing.
        let arrived = |pairs: &[(u8, u32)]| pairs.iter().map(|(value, count)| (Some(*value), *count)).collect();
        let [none_lost, half_lost] = [0, 30].map(|lost| LossCount { sent: 60, lost });
        let classify = |arrived: &BTreeMap<_, _>, loss| classify_treatment(2, arrived, loss, Some(none_lost));
        assert_eq!(classify(&arrived(&[(2, 30)]), half_lost), Treatment::PartlyDropped);
        assert_eq!(classify(&arrived(&[(2, 57), (3, 3)]), none_lost), Treatment::PartlyRemarked);
        assert_eq!(classify(&[(None, 60)].into(), none_lost), Treatment::NotSure);
        assert_eq!(classify(&arrived(&[(0, 1), (1, 2)]), half_lost), Treatment::Remarked);
    }

    #[test]
    fn a_record_of_packets_that_were_not_sent_counts_for_nothing() {
        let mut probe = MarkProbe::new(1);
        let train = probe.next_train().unwrap();
        let arrival = |index| MarkedArrival { index, ds_field: Some(0), hop_limit: None };
        let arrivals = vec![arrival(8), arrival(u32::MAX), arrival(7), arrival(7)];
        let record = MarkedRecord { sent: vec![7, 9999, 7], arrivals };
        probe.record_train(&train, &record);
        let tallies: Vec<_> = probe.tallies.values().map(|tally| (tally.sent, tally.arrived_count())).collect();
        assert_eq!(tallies, [(1, 1)]);
    }
}
