//! What the handshake of a TCP connection shows of the path.

use super::facts::{SynProbeFacts, SynProbeKind, TcpEndFacts, TcpFacts};
use super::hop_limit::hop_limit_report;
use super::syn::{ecn_request, options_beyond};
use crate::report::{EcnRequest, HopLimitReport, MssReport, SynProbeOutcome, SynProbeReport, SynReport, TcpPathReport};
use kumade_packet::{SavedSyn, tcp_option};
use std::net::IpAddr;

/// `TCPI_OPT_*`.
const TIMESTAMPS: u8 = 1;
const ECN: u8 = 8;
const ECN_SEEN: u8 = 16;
/// Names of those that a path may hinder.
const OPTION_NAMES: [(u8, &str); 3] = [(TIMESTAMPS, "time stamps"), (2, "SACK"), (4, "window scale")];
/// Of each segment, which a maximum segment size does not count.
const TIMESTAMPS_BYTES: u32 = 12;
const TCP_HEADER_BYTES: u32 = 20;

/// What the facts come to, and what is not known.
pub(super) fn report_tcp(facts: &TcpFacts, probes: &[SynProbeFacts]) -> (TcpPathReport, Vec<String>) {
    let mut not_known = Vec::new();
    let arrived = SavedSyn::read(&facts.arrived_syn);
    let sent = facts.reference_syn.as_deref().and_then(SavedSyn::read);
    match (&arrived, &sent) {
        (None, _) => not_known.push("TCP: how the SYN arrived: the far end's system did not keep it".to_owned()),
        (_, None) => not_known.push(
            "TCP: which options the SYN had when it left: a connection of this host to itself showed none (is the interface lo up?)".to_owned(),
        ),
        (Some(_), Some(sent)) if ecn_request(sent) == EcnRequest::None && !has_ecn_probe(probes) => not_known.push(unrequested_ecn(facts.ecn_setting)),
        _ => {}
    }
    if arrived.is_some() {
        not_known.push("TCP: unknown options: sending one takes CAP_NET_RAW".to_owned());
        not_known.push("TCP: rewritten sequence numbers: to see this host's own takes CAP_NET_RAW".to_owned());
    }
    let (syn_probes, unknown): (Vec<_>, Vec<_>) = probes.iter().map(report_probe).unzip();
    not_known.extend(unknown.into_iter().flatten());
    let has = |end: TcpEndFacts, option: u8| end.options & option != 0;
    let ect_seen = [facts.near, facts.far].map(|end| has(end, ECN).then(|| has(end, ECN_SEEN)));
    let options = OPTION_NAMES.iter().filter(|(option, _)| has(facts.near, *option));
    let report = TcpPathReport {
        syn: arrived.map(|arrived| report_syn(&arrived, sent.as_ref(), facts.near)),
        has_ecn: has(facts.near, ECN),
        ect_seen,
        ce_marked_segments: [facts.near.delivered_ce, facts.far.delivered_ce],
        syn_ack_mss: syn_ack_mss(facts),
        options: options.map(|(_, name)| (*name).to_owned()).collect(),
        syn_probes: syn_probes.into_iter().flatten().collect(),
    };
    (report, not_known)
}

/// Whether a SYN has requested ECN that was sent for that.
fn has_ecn_probe(probes: &[SynProbeFacts]) -> bool {
    let requests = |probe: &SynProbeFacts| probe.kind == SynProbeKind::Ecn && report_probe(probe).0.is_some();
    probes.iter().any(requests)
}

/// What became of such a SYN; or why that is not known, where it is worth a word.
fn report_probe(probe: &SynProbeFacts) -> (Option<SynProbeReport>, Option<String>) {
    let (name, setting) = match probe.kind {
        SynProbeKind::Mptcp => ("MPTCP", "net.mptcp.enabled"),
        SynProbeKind::FastOpen => ("TCP Fast Open", "net.ipv4.tcp_fastopen"),
        SynProbeKind::Ecn => (SynProbeReport::ECN, "net.ipv4.tcp_allowed_congestion_control"),
    };
    let carries = |syn: &SavedSyn| match probe.kind {
        SynProbeKind::Mptcp => syn.options.contains(&tcp_option::MULTIPATH),
        SynProbeKind::FastOpen => syn.options.contains(&tcp_option::FAST_OPEN),
        SynProbeKind::Ecn => ecn_request(syn) != EcnRequest::None,
    };
    let is_sent = probe.reference_syn.as_deref().and_then(SavedSyn::read).is_some_and(|syn| carries(&syn));
    if !is_sent {
        // That of ECN has a sentence of its own.
        let why = format!("TCP: {name}: this host's kernel sends no SYN with it (`sysctl {setting}`)");
        return (None, Some(why).filter(|_| probe.kind != SynProbeKind::Ecn));
    }
    let outcome = match &probe.arrived_syn {
        None => SynProbeOutcome::NotOpened,
        Some(bytes) => match SavedSyn::read(bytes) {
            None => return (None, Some(format!("TCP: {name}: the far end's system did not keep the SYN"))),
            Some(syn) if carries(&syn) => SynProbeOutcome::Kept,
            Some(_) => SynProbeOutcome::Removed,
        },
    };
    (Some(SynProbeReport { carried: name.to_owned(), outcome }), None)
}

fn unrequested_ecn(setting: Option<u32>) -> String {
    let setting = setting.map_or_else(String::new, |setting| format!(" (it is {setting})"));
    format!(
        "TCP: whether ECN can be negotiated: this host's kernel requests none, which takes `sysctl net.ipv4.tcp_ecn=1`{setting}"
    )
}

fn report_syn(arrived: &SavedSyn, sent: Option<&SavedSyn>, near: TcpEndFacts) -> SynReport {
    let announced = near.announced_mss;
    SynReport {
        ecn_sent: sent.map(ecn_request),
        ecn_arrived: ecn_request(arrived),
        mss: MssReport {
            sent: announced,
            arrived: arrived.mss.map(u32::from),
            is_clamped: arrived.mss.map(|arrived| u32::from(arrived) < announced),
        },
        options_removed: sent.map(|sent| options_beyond(sent, arrived)),
        options_added: sent.map(|sent| options_beyond(arrived, sent)),
        hop_limit: hop_limit_of(arrived, near),
        ds_field: arrived.ds_field,
    }
}

fn hop_limit_of(arrived: &SavedSyn, near: TcpEndFacts) -> Option<HopLimitReport> {
    hop_limit_report([near.hop_limit, Some(arrived.hop_limit)])
}

/// TTL or hop limit of the SYN; none where the far end did not keep it.
pub(super) fn syn_hop_limit(facts: &TcpFacts) -> Option<HopLimitReport> {
    hop_limit_of(&SavedSyn::read(&facts.arrived_syn)?, facts.near)
}

/// This end's segments are as long as the maximum segment size that arrived and the path's MTU allow.
fn syn_ack_mss(facts: &TcpFacts) -> MssReport {
    let ip_header = match facts.local.ip().to_canonical() {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    };
    let stamps = if facts.near.options & TIMESTAMPS != 0 { TIMESTAMPS_BYTES } else { 0 };
    let (sent, used) = (facts.far.announced_mss, facts.near.send_mss.saturating_add(stamps));
    let path = facts.near.path_mtu.saturating_sub(ip_header + TCP_HEADER_BYTES);
    // Shorter than the path allows: that is what arrived. As long as the path allows: as much or more arrived.
    let arrived = if used < path { Some(used) } else { Some(sent).filter(|sent| *sent <= path) };
    MssReport { sent, arrived, is_clamped: arrived.map(|arrived| arrived < sent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(near: TcpEndFacts, far: TcpEndFacts) -> TcpFacts {
        let address = "192.0.2.1:4000".parse().unwrap();
        TcpFacts {
            local: address,
            seen: address,
            is_destination_kept: true,
            arrived_syn: Vec::new(),
            reference_syn: None,
            ecn_setting: Some(2),
            near,
            far,
        }
    }

    #[test]
    fn a_maximum_segment_size_is_known_to_be_clamped_by_what_is_used() {
        let mss = |send_mss, path_mtu, announced_mss| {
            let near = TcpEndFacts { options: TIMESTAMPS, send_mss, path_mtu, ..TcpEndFacts::default() };
            let found = syn_ack_mss(&facts(near, TcpEndFacts { announced_mss, ..TcpEndFacts::default() }));
            (found.arrived, found.is_clamped)
        };
        assert_eq!(mss(1448, 1500, 1460), (Some(1460), Some(false)));
        assert_eq!(mss(1188, 1500, 1460), (Some(1200), Some(true)));
        // The path's MTU is less, or the far end's interface takes more than this one's.
        assert_eq!(mss(1348, 1400, 1460), (None, None));
        assert_eq!(mss(1448, 1500, 8960), (None, None));
    }

    /// A SYN over IPv4 with these options, which requests ECN on demand.
    fn syn(has_ecn: bool, options: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        (bytes[0], bytes[9], bytes[32], bytes[33]) = (0x45, 6, 0x60, if has_ecn { 0xc2 } else { 2 });
        [bytes, options.to_vec()].concat()
    }

    #[test]
    fn what_a_syn_was_sent_for_is_kept_or_removed_or_not_known() {
        let (with, without) = (syn(false, [30, 4, 1, 0]), syn(false, [1, 1, 1, 1]));
        let report = |kind, reference: &Vec<u8>, arrived_syn| {
            let probe = SynProbeFacts { kind, reference_syn: Some(reference.clone()), arrived_syn };
            let (found, unknown) = report_probe(&probe);
            (found.map(|found| found.outcome), unknown.is_some())
        };
        use SynProbeOutcome::{Kept, NotOpened, Removed};
        let mptcp = SynProbeKind::Mptcp;
        assert_eq!(report(mptcp, &with, Some(with.clone())), (Some(Kept), false));
        assert_eq!(report(mptcp, &with, Some(without.clone())), (Some(Removed), false));
        assert_eq!(report(mptcp, &with, None), (Some(NotOpened), false));
        assert_eq!(report(mptcp, &with, Some(Vec::new())), (None, true));
        assert_eq!(report(mptcp, &without, Some(without.clone())), (None, true), "this kernel does not send it");
        let requested = syn(true, [1, 1, 1, 1]);
        assert_eq!(report(SynProbeKind::Ecn, &requested, Some(without.clone())), (Some(Removed), false));
        assert_eq!(report(SynProbeKind::Ecn, &without, Some(without.clone())), (None, false));
    }

    #[test]
    fn what_is_not_known_is_said_with_what_it_takes() {
        let (report, not_known) = report_tcp(&facts(TcpEndFacts::default(), TcpEndFacts::default()), &[]);
        assert_eq!((report.syn, not_known.len()), (None, 1));
        assert!(unrequested_ecn(Some(2)).contains("tcp_ecn=1` (it is 2)"));
    }
}
