//! What a monitor sees, in OpenMetrics text.

use crate::status::{AgentStatus, LaneDelay, MonitorStatus, PairStatus, RemoteWriteStatus, RunFigure};
use kumade_daemon::metrics::{Encoder, Gauge, Labels, encode_text};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// The metrics of a monitor. Their names begin with `kumade_monitor_`.
///
/// What is measured every ten minutes has its age beside it: Prometheus takes a value for absent five minutes after it was exported
/// last, and exporting an old one again and again would hide that it is old.
pub fn encode_metrics(status: MonitorStatus) -> String {
    encode_text("kumade_monitor", Metrics(status))
}

fn pair_label(pair: &PairStatus) -> Labels<'_> {
    vec![("pair", pair.id.as_str())]
}

const REMOTE_WRITE_GAUGES: [Gauge<RemoteWriteStatus>; 3] = [
    ("remote_write_failing", "Whether nothing can be sent to the other database at present", |status| {
        Some(f64::from(u8::from(status.failure.is_some())))
    }),
    ("remote_write_accepted", "Figures that it has stored since the start", |status| Some(status.accepted as f64)),
    ("remote_write_refused", "Figures that it refused, or that became too old, since the start", |status| {
        Some(status.refused as f64)
    }),
];

#[derive(Debug)]
struct Metrics(MonitorStatus);

const MONITOR_GAUGES: [Gauge<MonitorStatus>; 5] = [
    ("uptime_seconds", "For how long the monitor has run", |status| Some(status.time_seconds - status.started_seconds)),
    ("leading", "Whether this host measures and writes: 0 where it stands by for another", |status| {
        Some(f64::from(u8::from(!stands_by(status))))
    }),
    ("archive_failing", "Whether nothing can be archived at present", |status| {
        Some(f64::from(u8::from(status.archive_failure.is_some())))
    }),
    ("alerts", "Alerts that stand", |status| Some(status.alerts.standing.len() as f64)),
    ("alert_messages_waiting", "Messages on alerts that nobody has taken so far", |status| {
        Some(status.alerts.receivers.iter().map(|receiver| receiver.waiting as f64).sum())
    }),
];
const PAIR_GAUGES: [Gauge<PairStatus>; 4] =
    [
        ("path_up", "Whether probes are answered: 1, or 0 where the last were lost; absent without data", |pair| {
            match pair.state.level.as_str() {
                "none" => None,
                level => Some(f64::from(u8::from(level != "bad"))),
            }
        }),
        ("loss_ratio", "The part of the last 15 minutes' probes that was lost", |pair| Some(pair.loss?.ratio)),
        ("loss_low_ratio", "Lower end of its 95 % interval", |pair| Some(pair.loss?.low)),
        ("loss_high_ratio", "Upper end of its 95 % interval", |pair| Some(pair.loss?.high)),
    ];
const AGENT_GAUGES: [Gauge<AgentStatus>; 4] = [
    ("agent_connected", "Whether an agent is connected to this coordinator", |agent| {
        Some(f64::from(u8::from(agent.is_connected)))
    }),
    ("agent_faults", "Things that an agent cannot do", |agent| Some(agent.faults.len() as f64)),
    ("agent_measured_bytes", "What measurements have carried at an agent's host in 24 hours", |agent| {
        Some(agent.used_bytes as f64)
    }),
    ("agent_measured_limit_bytes", "What they may carry in 24 hours", |agent| Some(agent.bytes_per_day? as f64)),
];
const DELAY_GAUGES: [Gauge<LaneDelay>; 4] = [
    ("delay_minimum_seconds", "The least delay of the last 15 minutes", |delay| Some(delay.minimum_seconds)),
    ("delay_median_seconds", "The median delay of the last 15 minutes", |delay| Some(delay.median_seconds)),
    ("delay_95_seconds", "95 % of the last 15 minutes' delays are not above it", |delay| {
        Some(delay.quantile_95_seconds)
    }),
    ("delay_maximum_seconds", "The greatest delay of the last 15 minutes", |delay| Some(delay.maximum_seconds)),
];
const FIGURE_GAUGES: [Gauge<RunFigure>; 3] = [
    ("available_bits_per_second", "Available bandwidth by the last measurement", |figure| {
        figure.known().map(|known| known.0)
    }),
    ("available_low_bits_per_second", "Lower end of its interval", |figure| figure.known().map(|known| known.1)),
    ("available_high_bits_per_second", "Upper end of its interval", |figure| figure.known().map(|known| known.2)),
];

impl RunFigure {
    /// Value, lower and upper end.
    fn known(&self) -> Option<(f64, f64, f64)> {
        match self {
            RunFigure::Known { value, low, high } => Some((*value, *low, *high)),
            RunFigure::Unknown { .. } => None,
        }
    }
}

fn stands_by(status: &MonitorStatus) -> bool {
    status.leader.as_ref().is_some_and(|leader| !leader.is_this)
}

impl Collector for Metrics {
    fn encode(&self, mut descriptors: DescriptorEncoder) -> fmt::Result {
        let status = &self.0;
        let mut encoder = Encoder::new(&mut descriptors, "");
        encoder.encode_gauges(&[(vec![], status)], &MONITOR_GAUGES)?;
        let remote_write: Vec<_> = status.remote_write.iter().map(|remote_write| (vec![], remote_write)).collect();
        encoder.encode_gauges(&remote_write, &REMOTE_WRITE_GAUGES)?;
        if stands_by(status) {
            // The one that leads exports what it sees.
            return Ok(());
        }
        let agents: Vec<_> = status.agents.iter().map(|agent| (vec![("agent", agent.id.as_str())], agent)).collect();
        encoder.encode_gauges(&agents, &AGENT_GAUGES)?;
        let pairs: Vec<_> = status.pairs.iter().map(|pair| (pair_label(pair), pair)).collect();
        encoder.encode_gauges(&pairs, &PAIR_GAUGES)?;
        let delays = status.pairs.iter().flat_map(|pair| pair.delays.iter().map(move |delay| (pair, delay)));
        let delays: Vec<_> = delays
            .map(|(pair, delay)| (vec![("pair", pair.id.as_str()), ("lane", delay.lane.as_str())], delay))
            .collect();
        encoder.encode_gauges(&delays, &DELAY_GAUGES)?;
        let runs: Vec<_> = status.pairs.iter().filter_map(|pair| Some((pair, pair.run.as_ref()?))).collect();
        let figures = runs.iter().flat_map(|(pair, run)| {
            let directions = [("up", run.up.as_ref()), ("down", run.down.as_ref())];
            directions.into_iter().filter_map(|(direction, figure)| {
                Some((vec![("pair", pair.id.as_str()), ("direction", direction)], figure?))
            })
        });
        encoder.encode_gauges(&figures.collect::<Vec<_>>(), &FIGURE_GAUGES)?;
        let ages: Vec<_> =
            runs.iter().map(|(pair, run)| (pair_label(pair), status.time_seconds - run.start_seconds)).collect();
        let ages: Vec<_> = ages.iter().map(|(labels, age)| (labels.clone(), age)).collect();
        encoder.encode_gauges(
            &ages,
            &[("measurement_age_seconds", "How long ago the last measurement began", |age| Some(*age))],
        )
    }
}
