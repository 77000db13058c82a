//! Whether congestion control by ECN works on a path: classic ECN (RFC 3168), and L4S (RFC 9331), whose packets have ECT(1).

use crate::report::{
    EcnGrade, EcnReadiness, EcnRequest, MarkReport, SynProbeOutcome, SynProbeReport, SynReport, TcpPathReport,
    Treatment,
};
use kumade_packet::Ecn;
use kumade_units::Direction;

/// In the order in which reports have them.
pub(super) const ECN_CODEPOINTS: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

/// The name of a codepoint by its two bits.
pub(super) fn name(bits: u8) -> String {
    Ecn::from_bits(bits).to_string()
}

/// What is wrong with a codepoint in a direction.
enum Fault {
    Fails(String),
    NotSure(String),
}

/// Whether a path is ready, with what became of the codepoints up and down, none where that could not be seen, and TCP's handshake.
pub(super) fn readiness(marks: [Option<&[MarkReport]>; 2], tcp: Option<&TcpPathReport>) -> EcnReadiness {
    let [Some(up), Some(down)] = marks else {
        let sentence = "not known: marked packets could not be seen in both directions".to_owned();
        return EcnReadiness { grade: EcnGrade::Unknown, sentence };
    };
    let both = [(Direction::Up, up), (Direction::Down, down)];
    let faults = |codepoints: &[Ecn]| -> Vec<Fault> {
        let wanted = |report: &&MarkReport| codepoints.iter().any(|ecn| *ecn as u8 == report.value);
        both.iter().flat_map(|(way, all)| all.iter().filter(wanted).filter_map(|mark| fault(*way, mark))).collect()
    };
    let syn = tcp.and_then(|tcp| tcp.syn.as_ref());
    let (mut classic, mut l4s) = (faults(&[Ecn::NotEct, Ecn::Ect0, Ecn::Ce]), faults(&[Ecn::Ect1]));
    match syn.and_then(handshake_fault) {
        Some((text, true)) => classic.push(Fault::Fails(text)),
        Some((text, false)) => l4s.push(Fault::Fails(text)),
        None => {}
    }
    let texts = tcp
        .into_iter()
        .flat_map(|tcp| syn_ack_fault(tcp).into_iter().chain(segment_faults(tcp)).chain(probe_fault(tcp)));
    classic.extend(texts.map(Fault::Fails));
    summarize(&classic, &l4s)
}

fn summarize(classic: &[Fault], l4s: &[Fault]) -> EcnReadiness {
    let texts = |faults: &[Fault]| -> Vec<String> {
        let text = |fault: &Fault| match fault {
            Fault::Fails(text) | Fault::NotSure(text) => text.clone(),
        };
        faults.iter().map(text).collect()
    };
    let fails = |faults: &[Fault]| faults.iter().any(|fault| matches!(fault, Fault::Fails(_)));
    let all = [texts(classic), texts(l4s)].concat().join("; ");
    let (grade, sentence) = match (classic.is_empty(), l4s.is_empty()) {
        (true, true) => {
            (EcnGrade::L4s, "ready for L4S and for classic ECN: all codepoints pass in both directions".to_owned())
        }
        (true, false) if fails(l4s) => (EcnGrade::Classic, format!("ready for classic ECN, not for L4S: {all}")),
        (true, false) => (EcnGrade::Classic, format!("ready for classic ECN; for L4S, that is not sure: {all}")),
        (false, _) if fails(classic) => (EcnGrade::None, format!("not ready for ECN: {all}")),
        (false, _) => (EcnGrade::Unknown, format!("not sure: {all}")),
    };
    EcnReadiness { grade, sentence }
}

fn fault(direction: Direction, report: &MarkReport) -> Option<Fault> {
    let text = format!("{direction}, {report}");
    match report.treatment {
        Treatment::Kept => None,
        // A queue marks, as it is to.
        Treatment::PartlyRemarked if is_marked_by_queue(report) => None,
        Treatment::NotSure => Some(Fault::NotSure(text)),
        _ => Some(Fault::Fails(text)),
    }
}

/// Whether some ECN-capable packets, and no more than a half, arrived with CE, and all others as they were sent.
fn is_marked_by_queue(report: &MarkReport) -> bool {
    let is_capable = matches!(Ecn::from_bits(report.value), Ecn::Ect0 | Ecn::Ect1);
    let marked = report.arrived_as.get(&name(Ecn::Ce as u8)).copied().unwrap_or(0);
    is_capable && report.kept() >= marked && report.kept() + marked == report.arrived()
}

/// What became of a SYN's request for ECN, and whether that concerns classic ECN, too.
fn handshake_fault(syn: &SynReport) -> Option<(String, bool)> {
    use EcnRequest::{Accurate, Classic, Mangled, None as Nothing};
    let text = |what: &str| format!("up, TCP: {what}");
    match (syn.ecn_sent?, syn.ecn_arrived) {
        (sent, arrived) if sent == arrived => None,
        (Classic | Accurate, Nothing) => Some((text("the flags of the SYN that request ECN are cleared"), true)),
        (Accurate, Classic) => Some((text("the flag AE of the SYN is cleared, so that there is no AccECN"), false)),
        (_, Mangled) => Some((text("the flags of the SYN that request ECN are changed"), true)),
        _ => Some((text("flags of the SYN that request ECN were set on the way"), true)),
    }
}

/// Whether the far end has agreed to ECN, and this one has not heard that.
fn syn_ack_fault(tcp: &TcpPathReport) -> Option<String> {
    let agreed = tcp.ect_seen[1].is_some();
    (agreed && !tcp.has_ecn)
        .then(|| "down, TCP: the flag ECE of the SYN-ACK, which agrees to ECN, is cleared".to_owned())
}

/// In which directions segments of data, which have ECT once ECN is negotiated, arrive without.
fn segment_faults(tcp: &TcpPathReport) -> impl Iterator<Item = String> {
    let [near, far] = tcp.ect_seen;
    let seen = [(Direction::Up, far), (Direction::Down, near)];
    let faults = seen.into_iter().filter(move |(_, seen)| *seen == Some(false)).map(|(direction, _)| direction);
    let has_ecn = tcp.has_ecn;
    faults.filter(move |_| has_ecn).map(|direction| format!("{direction}, TCP: segments arrive without ECT"))
}

/// What became of a SYN that was sent to request ECN, where this host's others do not.
fn probe_fault(tcp: &TcpPathReport) -> Option<String> {
    let probe = tcp.syn_probes.iter().find(|probe| probe.carried == SynProbeReport::ECN)?;
    match probe.outcome {
        SynProbeOutcome::Kept => None,
        SynProbeOutcome::Removed => Some("up, TCP: the flags of a SYN that requests ECN are cleared".to_owned()),
        SynProbeOutcome::NotOpened => Some("TCP: a connection whose SYN requests ECN does not open".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::MssReport;

    fn direction(become_of: impl Fn(u8) -> Option<u8>) -> Vec<MarkReport> {
        let report = |ecn: Ecn| {
            let value = ecn as u8;
            let arrived = become_of(value);
            let treatment = match arrived {
                None => Treatment::Dropped,
                Some(other) if other == value => Treatment::Kept,
                Some(0) => Treatment::Bleached,
                Some(_) => Treatment::Remarked,
            };
            let arrived_as = arrived.map(|other| (name(other), 12)).into_iter().collect();
            MarkReport { mark: name(value), value, sent: 12, arrived_as, treatment }
        };
        ECN_CODEPOINTS.into_iter().map(report).collect()
    }

    fn grade(up: impl Fn(u8) -> Option<u8>, down: impl Fn(u8) -> Option<u8>) -> (EcnGrade, String) {
        let found = readiness([Some(&direction(up)), Some(&direction(down))], None);
        (found.grade, found.sentence)
    }

    #[test]
    fn a_path_is_ready_for_what_passes_in_both_directions() {
        assert_eq!(grade(Some, Some).0, EcnGrade::L4s);
        let (found, text) = grade(Some, |ecn| Some(ecn).filter(|ecn| *ecn != 1));
        assert_eq!(found, EcnGrade::Classic);
        assert_eq!(text, "ready for classic ECN, not for L4S: down, ECT(1): dropped (0 of 12 arrived)");
        let (found, text) = grade(|_| Some(0), Some);
        assert_eq!(found, EcnGrade::None);
        assert!(text.contains("up, ECT(0): bleached to Not-ECT (12 of 12)"), "{text}");
        // Marks of congestion that are lost are the worst.
        assert_eq!(grade(Some, |ecn| Some(if ecn == 3 { 2 } else { ecn })).0, EcnGrade::None);
        assert_eq!(grade(|ecn| Some(if ecn == 0 { 3 } else { ecn }), Some).0, EcnGrade::None);
        assert_eq!(readiness([None, Some(&direction(Some))], None).grade, EcnGrade::Unknown);
    }

    #[test]
    fn what_is_not_sure_is_no_failure_and_marks_of_a_queue_are_none() {
        let mut up = direction(Some);
        up[2].treatment = Treatment::NotSure;
        let down = direction(Some);
        let found = readiness([Some(&up), Some(&down)], None);
        assert_eq!(found.grade, EcnGrade::Classic);
        assert!(found.sentence.contains("not sure"), "{}", found.sentence);
        up[2] = MarkReport {
            arrived_as: [("ECT(1)".to_owned(), 9), ("CE".to_owned(), 3)].into(),
            treatment: Treatment::PartlyRemarked,
            ..up[2].clone()
        };
        assert_eq!(readiness([Some(&up), Some(&down)], None).grade, EcnGrade::L4s);
        up[2].arrived_as = [("ECT(1)".to_owned(), 9), ("Not-ECT".to_owned(), 3)].into();
        assert_eq!(readiness([Some(&up), Some(&down)], None).grade, EcnGrade::Classic);
    }

    #[test]
    fn tcp_needs_its_flags_as_well() {
        let mss = MssReport { sent: 1460, arrived: Some(1460), is_clamped: Some(false) };
        let marks = direction(Some);
        let grade = |sent, arrived, ect_seen: [Option<bool>; 2], has_ecn| {
            let syn = SynReport {
                ecn_sent: Some(sent),
                ecn_arrived: arrived,
                mss,
                options_removed: None,
                options_added: None,
                hop_limit: None,
                ds_field: 0,
            };
            let tcp = TcpPathReport {
                syn: Some(syn),
                has_ecn,
                ect_seen,
                ce_marked_segments: [0; 2],
                syn_ack_mss: mss,
                options: Vec::new(),
                syn_probes: Vec::new(),
            };
            readiness([Some(&marks), Some(&marks)], Some(&tcp)).grade
        };
        use EcnRequest::{Accurate, Classic, None as Nothing};
        let (agreed, refused) = ([Some(true), Some(true)], [None, None]);
        assert_eq!(grade(Classic, Classic, agreed, true), EcnGrade::L4s);
        assert_eq!(grade(Nothing, Nothing, refused, false), EcnGrade::L4s, "nobody asked");
        assert_eq!(grade(Classic, Nothing, refused, false), EcnGrade::None);
        assert_eq!(grade(Accurate, Classic, agreed, true), EcnGrade::Classic);
        assert_eq!(grade(Classic, Classic, [Some(true), Some(false)], true), EcnGrade::None, "segments");
        assert_eq!(grade(Classic, Classic, [None, Some(false)], false), EcnGrade::None, "SYN-ACK");
        let probe = |outcome| {
            let carried = SynProbeReport::ECN.to_owned();
            let tcp = TcpPathReport {
                syn: None,
                has_ecn: false,
                ect_seen: [None; 2],
                ce_marked_segments: [0; 2],
                syn_ack_mss: mss,
                options: Vec::new(),
                syn_probes: vec![SynProbeReport { carried, outcome }],
            };
            readiness([Some(&marks), Some(&marks)], Some(&tcp)).grade
        };
        use SynProbeOutcome::{Kept, NotOpened, Removed};
        assert_eq!([Kept, Removed, NotOpened].map(probe), [EcnGrade::L4s, EcnGrade::None, EcnGrade::None]);
    }
}
