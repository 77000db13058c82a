//! The default method on paths of the atlas that tune it: a line for each kind, and each wrong statement with its seed.
//!
//! `cargo run -p sim --example atlas -- [KIND|all] [PATHS] [udp|rake] [SEED]`
use estimate::MethodSettings;
use sim::atlas::{DrawnPath, Fault, Judgement, PathKind, Seeds};
use std::collections::BTreeMap;
use train::Transport;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize| given.get(index).map(String::as_str);
    let kinds = word(0).and_then(|name| name.parse().ok()).map_or(PathKind::ALL.to_vec(), |kind| vec![kind]);
    let paths: u32 = word(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let transports = match word(2) {
        Some("udp") => vec![Transport::Udp],
        Some("rake") => vec![Transport::Rake],
        _ => vec![Transport::Udp, Transport::Rake],
    };
    let only: Option<u32> = word(3).and_then(|text| text.parse().ok());
    for kind in kinds {
        for &transport in &transports {
            let numbers = only.map_or(0..paths, |number| number..number + 1);
            sum_up(kind, transport, numbers, only.is_some());
        }
    }
}

fn sum_up(kind: PathKind, transport: Transport, numbers: std::ops::Range<u32>, all: bool) {
    let (mut judged, mut reasons, mut bytes, mut seconds) = (Vec::new(), BTreeMap::<String, u32>::new(), 0, 0.0);
    let runs = numbers.len();
    let mut wrong = 0;
    for number in numbers {
        let path = DrawnPath::new(kind, Seeds::Tuning.seed(number));
        let measured = path.measure(transport, &MethodSettings::default()).expect("it can be measured");
        let (report, truth) = (&measured.report, measured.truth);
        bytes += report.bytes_sent + report.capacity.as_ref().map_or(0, |capacity| capacity.bytes_sent);
        seconds += report.duration_seconds + report.capacity.as_ref().map_or(0.0, |c| c.duration_seconds);
        let judgement = report
            .available_bits_per_second
            .as_ref()
            .map(|found| Judgement::of(found, truth.available, path.sustained));
        let fault: Option<Fault> = judgement.and_then(|judgement| judgement.fault());
        let reason = report.reason.clone().unwrap_or_default();
        if let Some(judgement) = judgement {
            judged.push(judgement);
        } else {
            let short: String = reason.chars().filter(|c| !c.is_ascii_digit() && *c != '.').take(60).collect();
            *reasons.entry(short).or_default() += 1;
        }
        wrong += u32::from(fault.is_some());
        if fault.is_some() || all {
            println!("  {kind} {transport:?} {number}: {path:?}\n    truth {truth:?}\n    {report}");
            if let Some(capacity) = &report.capacity {
                println!("    {capacity}; {:?} {:?}", report.warnings, report.trains_rejected_reasons);
            }
        }
    }
    let values = judged.len().max(1) as f64;
    let covered = judged.iter().filter(|j| j.covers).count() as f64 / values * 100.0;
    let mae = judged.iter().map(|j| j.error.abs()).sum::<f64>() / values * 100.0;
    let mut widths: Vec<f64> = judged.iter().map(|j| j.width).collect();
    widths.sort_by(f64::total_cmp);
    println!(
        "{kind:<12}{transport:?}: {runs} runs, {} values, covered {covered:.1} %, error {mae:.2} %, width {:.3}, wrong {wrong}, {:.2} MB, {:.2} s {reasons:?}",
        judged.len(),
        widths.get(widths.len() / 2).copied().unwrap_or(0.0),
        bytes as f64 / 1e6 / runs as f64,
        seconds / runs as f64,
    );
}
