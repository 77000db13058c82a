//! Today's rules against the posterior over path models, on the same trains of the same paths: a line for each kind.
//!
//! `cargo run --release -p kumade-sim --example evidence -- [KINDS|all] [PATHS] [udp|rake|both] [tuning|judging] [FIRST] [-v]`
//!
//! KINDS are separated by commas; FIRST is the number of the first path. With `-v` each path has its own lines.
use kumade_estimate::MethodSettings;
use kumade_evidence::Evidence;
use kumade_probe_train::Transport;
use kumade_sim::atlas::{DrawnPath, KindComparison, PathComparison, PathKind, Seeds, StatementSummary};
use std::ops::Range;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|word| word != "-v").collect();
    let is_verbose = std::env::args().any(|word| word == "-v");
    let word = |index: usize| given.get(index).map_or("", String::as_str);
    let named: Vec<PathKind> = word(0).split(',').filter_map(|name| name.parse().ok()).collect();
    let kinds = if named.is_empty() { PathKind::ALL.to_vec() } else { named };
    let paths: u32 = word(1).parse().unwrap_or(100);
    let transports = match word(2) {
        "rake" => vec![Transport::Rake],
        "both" => vec![Transport::Udp, Transport::Rake],
        _ => vec![Transport::Udp],
    };
    let seeds = if word(3) == "judging" { Seeds::Evaluation } else { Seeds::Tuning };
    let first: u32 = word(4).parse().unwrap_or(0);
    println!(
        "kind            via   runs | rules: values cover wrong width error | posterior: values cover wrong width error | 50 80 95 % | leading"
    );
    let mut all = Vec::new();
    for kind in kinds {
        for &transport in transports.iter().filter(|transport| kind.can_carry(**transport)) {
            let compared = compare_paths(kind, transport, seeds, first..first + paths, is_verbose);
            let found = KindComparison::from_paths(&compared);
            let leading: Vec<String> =
                found.leading_models.iter().map(|(name, count)| format!("{name} {count}")).collect();
            let [half, most, nearly_all] = found.coverage.map(|part| part * 100.0);
            println!(
                "{kind:<15} {:<5} {:>4} | {} | {} | {half:>3.0} {most:>3.0} {nearly_all:>3.0} | {}",
                transport.to_string(),
                found.runs,
                describe(&found.rules),
                describe(&found.posterior),
                leading.join(", ")
            );
            all.extend(compared);
        }
    }
    for (model, paths, stretch) in PathComparison::needed_stretch(&all) {
        println!(
            "{model} leads and fits on {paths} paths: 95 % of the truths are within {stretch:.2} of its 95 % intervals"
        );
    }
}

fn describe(found: &StatementSummary) -> String {
    let StatementSummary { values, coverage, wrong, median_width, median_error } = found;
    format!("{values:>4} {:>5.1} {wrong:>3} {median_width:>6.3} {median_error:>6.4}", coverage * 100.0)
}

fn print_posterior(found: &Evidence, is_wrong: bool) {
    let masses: Vec<String> = found.models.iter().map(|model| format!("{} {:.2}", model.name, model.mass)).collect();
    let rates: Vec<String> = found.quantiles.0.iter().map(|rate| format!("{:.3}", rate / 1e6)).collect();
    println!("    posterior {} of {}{}", rates.join(" "), masses.join(", "), if is_wrong { " WRONG" } else { "" });
    if let Some((fact, ln_ratio)) = found.decided_by {
        println!("    decided by {}, e^{ln_ratio:.1}", fact.describe());
    }
    println!(
        "    {:?}, fit {:.3}, {} trains worth {:.1}, {:.2} of {:.2} s watched",
        found.verdict,
        found.fit_probability,
        found.trains,
        found.effective_trains,
        found.watched_fraction,
        found.window_seconds
    );
}

fn compare_paths(
    kind: PathKind,
    transport: Transport,
    seeds: Seeds,
    numbers: Range<u32>,
    is_verbose: bool,
) -> Vec<PathComparison> {
    let compare = |number| {
        let path = DrawnPath::new(kind, seeds.seed(number));
        let (measured, facts) = path
            .measure_with_facts(transport, &MethodSettings::default())
            .expect("a path of the atlas can be measured");
        let evidence = facts.evidence();
        let compared = PathComparison::new(&measured, evidence.as_ref(), path.sustained_rate);
        if is_verbose {
            let cross = path.hops[0].cross.first().map_or(String::new(), |cross| format!("{:?}", cross.kind));
            println!("  {number}: {} cross {} x{} {cross}", path.sustained_rate, path.cross_rate, path.cross_flows);
            println!("    truth {:?}", measured.truth.available);
            println!("    rules     {}{}", measured.report, if compared.rules.is_wrong { " WRONG" } else { "" });
            match &evidence {
                Some(found) => print_posterior(found, compared.posterior.is_wrong),
                None => println!("    no posterior"),
            }
        }
        compared
    };
    numbers.map(compare).collect()
}
