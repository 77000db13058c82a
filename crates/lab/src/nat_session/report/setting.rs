use crate::multipath::PathSettings;
use crate::nat_session::scenario::NatSessionExperiment;

/// Paths, traffic and runs in one line.
pub(super) fn describe_setting(experiment: &NatSessionExperiment) -> String {
    let paths: Vec<_> = experiment.paths.iter().map(PathSettings::in_words).collect();
    let how = match experiment.virtual_time {
        true => "virtual time, the gateways' own session protocol",
        false => "real time, real gateways, emulated paths of at least 0.2 ms",
    };
    let runs = if experiment.runs == 1 { "1 run".to_owned() } else { format!("{} runs", experiment.runs) };
    format!(
        "paths of {}; UDP flows with a packet each {}; sessions end after {} idle; {how}; {runs}",
        paths.join(" and "),
        experiment.interval,
        experiment.idle
    )
}
