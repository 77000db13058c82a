use crate::multipath::scenario::{MultipathExperiment, Workload};
use kumade_units::Span;

/// Traffic and runs in one line.
pub(super) fn describe_setting(experiment: &MultipathExperiment) -> String {
    let after = match experiment.warm_up {
        Span::ZERO => String::new(),
        warm_up => format!(" after {warm_up} of warm-up"),
    };
    let timed = format!("{}{after}", experiment.duration);
    let traffic = match experiment.workload {
        Workload::Transfer => format!("one TCP connection (CUBIC), goodput of {timed}"),
        Workload::Numbered { packets, payload, load } => {
            format!("{packets} UDP packets of {payload} bytes of payload, at {:.0} % of the paths' rates", load * 100.0)
        }
        Workload::Blocks => {
            let lengths = experiment.blocks.block_settings().len();
            format!(
                "one TCP connection (CUBIC) written to in blocks, {lengths} lengths and settings, goodput of {timed} each"
            )
        }
        Workload::Flood { payload } => {
            format!("UDP packets of {payload} bytes of payload as fast as they can be sent, goodput of {timed}")
        }
    };
    let how = match (experiment.virtual_time, experiment.workload) {
        (true, _) => {
            "virtual time, the simulator's TCP, paths of at least 0.2 ms with tail-drop queues of a round trip"
        }
        (false, Workload::Flood { .. }) => "real time, paths are veth pairs",
        (false, _) => {
            "real time, the kernel's TCP, emulated paths of at least 0.2 ms with tail-drop queues of a round trip"
        }
    };
    let runs = if experiment.runs == 1 { "1 run".to_owned() } else { format!("{} runs", experiment.runs) };
    format!("{traffic}; {how}; {runs}")
}
