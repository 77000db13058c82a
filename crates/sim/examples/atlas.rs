//! The default method on paths of the atlas that tune it: a line for each kind, and each wrong statement with its path.
//!
//! `cargo run -p kumade-sim --example atlas -- [KIND|all] [PATHS] [udp|rake] [NUMBER]`
use kumade_estimate::MethodSettings;
use kumade_probe_train::Transport;
use kumade_sim::atlas::{DrawnPath, KindResults, PathKind, PathResult, Seeds};
use std::ops::Range;

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
        for &transport in transports.iter().filter(|transport| kind.can_carry(**transport)) {
            let numbers = only.map_or(0..paths, |number| number..number + 1);
            let verdicts = verdicts(kind, transport, numbers, only.is_some());
            let summary = KindResults::from_results(&verdicts);
            println!(
                "{kind:<12}{transport:?}: {} runs, {} values, covered {:.1} %, error {:.2} %, width {:.3}, wrong {}, {:.2} MB, {:.2} s",
                summary.runs,
                summary.runs_with_value,
                summary.coverage * 100.0,
                summary.mean_absolute_error * 100.0,
                summary.median_width,
                summary.runs_with_fault,
                summary.mean_bytes / 1e6,
                summary.mean_seconds
            );
            if let Some(impact) = summary.impact {
                println!("    {impact}");
            }
            if summary.runs_reporting_proxy > 0 {
                println!("    {} name a proxy", summary.runs_reporting_proxy);
            }
            if summary.runs_reporting_absent_bucket > 0 {
                println!("    {} name a token bucket where there is none", summary.runs_reporting_absent_bucket);
            }
            for (cause, count) in summary.refusals {
                println!("    {count} without a value: {cause}");
            }
        }
    }
}

fn verdicts(kind: PathKind, transport: Transport, numbers: Range<u32>, all: bool) -> Vec<PathResult> {
    let measure = |number| {
        let path = DrawnPath::new(kind, Seeds::Tuning.seed(number));
        let measured =
            path.measure(transport, &MethodSettings::default()).expect("a path of the atlas can be measured");
        let verdict = PathResult::evaluate(&path, &measured);
        if verdict.fault.is_some() || all {
            let link = &path.hops[0].link;
            let cross = path.hops[0].cross.first().map_or(String::new(), |cross| format!("{:?}", cross.kind));
            println!(
                "  {transport:?} {number}: {} of {} cross {} x{} {:?} queue {} jitter {} batches {} {cross}",
                path.sustained_rate,
                link.rate.unwrap_or_default(),
                path.cross_rate,
                path.cross_flows,
                path.token_bucket,
                link.queue_bytes,
                link.jitter.amount,
                path.stamping.batching
            );
            for hop in &path.hops {
                let cross = hop.cross.first().map(|cross| &cross.kind);
                println!("    hop {:?} loses {:?} {cross:?} {:?}", hop.link.rate, hop.link.loss, hop.queue);
            }
            if let Some(proxy) = path.proxy {
                println!("    {proxy:?}");
            }
            println!("    {:?} {:?}", path.elastic_flows, measured.impact);
            println!("    truth {:?}\n    {} ({:?})", measured.truth, measured.report, measured.report.sustained_bytes);
            if let Some(capacity) = &measured.report.capacity {
                let direction = &measured.report;
                println!("    {capacity}; {:?} {:?}", direction.warnings, direction.trains_rejected_reasons);
            }
        }
        verdict
    };
    numbers.map(measure).collect()
}
