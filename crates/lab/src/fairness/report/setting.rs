use crate::buffer_size::BufferSize;
use crate::fairness::scenario::{AccessHop, ConnectionGroup, FairnessExperiment, SharedNetwork};
use kumade_units::Span;

/// Network, connections and runs in one line.
pub(super) fn describe_setting(experiment: &FairnessExperiment) -> String {
    let network = match &experiment.shared {
        None => format!("{} mixes of connections, each with its own bottleneck", experiment.cases.len()),
        Some(SharedNetwork { bottleneck, groups }) => {
            let queue = match bottleneck.queue {
                BufferSize::Bytes(bytes) => format!("{bytes} bytes"),
                BufferSize::Packets(packets) => format!("{packets} packets"),
                BufferSize::RoundTrips(count) => {
                    format!("{count} × round-trip time × rate, at least {} packets", BufferSize::MIN_PACKETS)
                }
            };
            let groups: Vec<_> = groups.iter().map(describe_group).collect();
            format!(
                "bottleneck {}, one-way delay {} and half of what is added, queue of {queue}; {}",
                bottleneck.rate,
                bottleneck.delay,
                groups.join(" against ")
            )
        }
    };
    let how = match experiment.virtual_time {
        true => format!(
            "virtual time, the simulator's TCP, segments of {} bytes payload, {} per acknowledgement",
            experiment.segment_bytes, experiment.segments_per_ack
        ),
        false => "real time, the kernel's TCP".to_owned(),
    };
    let runs = if experiment.runs == 1 { "1 run".to_owned() } else { format!("{} runs", experiment.runs) };
    let after = match experiment.warm_up {
        Span::ZERO => String::new(),
        warm_up => format!(" after {warm_up} of warm-up"),
    };
    format!("{network}; {how}; {runs} of {}{after} each", experiment.duration)
}

fn describe_group(group: &ConnectionGroup) -> String {
    let hops = match &group.hops[..] {
        [] => String::new(),
        hops => {
            let radio = |hop: &AccessHop| if hop.cellular { "a cellular line" } else { "802.11ac" };
            let each = |hop: &AccessHop| hop.rate.map_or_else(|| radio(hop).to_owned(), |rate| rate.to_string());
            format!(" behind {}", hops.iter().map(each).collect::<Vec<_>>().join(", "))
        }
    };
    format!("{} {}{hops}", group.connections, group.label())
}
