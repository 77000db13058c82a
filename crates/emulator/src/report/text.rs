use super::{DirectionReport, Document, Drops, Flow, Percentiles, Traffic};
use kumade_units::{Rate, Span};
use std::fmt::{self, Display, Formatter};

/// So many flows are shown of each direction.
const MAX_SHOWN_FLOWS: usize = 8;

impl Display for Document {
    /// Some lines for people, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.up, self.down)?;
        write!(f, "{}", self.verdict.message)
    }
}

impl Document {
    /// One line: `up: delivered 9.98 Mbit/s, backlog 3000 bytes, dropped 12, queueing delay p99 5 ms; down: …`.
    pub fn summary_line(&self) -> String {
        let [up, down] = [("up", &self.up), ("down", &self.down)].map(|(name, direction)| {
            let DirectionReport { delivered, queued_bytes, .. } = direction;
            let drops = direction.dropped.total_packets();
            let queueing = direction.queueing_delay.map_or_else(String::new, |times| {
                format!(", queueing delay p99 {}", Span::from_secs_f64(times.p99_seconds))
            });
            format!(
                "{name}: delivered {}, backlog {queued_bytes} bytes, dropped {drops}{queueing}",
                traffic_rate(delivered)
            )
        });
        format!("{up}; {down}")
    }
}

impl Display for DirectionReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} > {}: {}", self.from, self.to, self.settings)?;
        let (offered, delivered) = (traffic_rate(&self.offered), traffic_rate(&self.delivered));
        writeln!(f, "  offered {offered}, delivered {delivered}, backlog {} bytes", self.queued_bytes)?;
        let drops = &self.dropped;
        let causes = drops.by_cause();
        let said: Vec<_> = causes
            .iter()
            .filter(|(_, traffic)| traffic.packets > 0)
            .map(|(cause, traffic)| format!("{} {cause}", traffic.packets))
            .collect();
        if !said.is_empty() {
            writeln!(f, "  dropped packets: {}", said.join(", "))?;
        }
        if self.marked.packets > 0 {
            writeln!(f, "  marked packets (ECN): {}", self.marked.packets)?;
        }
        if self.corrupted.packets > 0 {
            writeln!(f, "  packets with a bit inverted: {}", self.corrupted.packets)?;
        }
        show_times(f, "queueing delay", self.queueing_delay)?;
        show_times(f, "sojourn time", self.sojourn)?;
        show_times(f, "lateness", self.lateness)?;
        if let Some(index) = self.fairness_index_ratio {
            writeln!(f, "  fairness index {index:.3} of {} active flow(s)", self.active_flows)?;
        }
        self.flows.iter().take(MAX_SHOWN_FLOWS).try_for_each(|flow| show_flow(f, flow))
    }
}

impl Drops {
    /// Each cause with its packets.
    fn by_cause(&self) -> [(&'static str, Traffic); 9] {
        [
            ("queue full", self.queue_full),
            ("by AQM", self.aqm),
            ("by the policer", self.policed),
            ("lost", self.loss),
            ("refused", self.refused),
            ("malformed", self.malformed),
            ("too large", self.too_large),
            ("overload", self.overload),
            ("not taken", self.output),
        ]
    }

    /// Dropped packets, for whatever cause.
    pub fn total_packets(&self) -> u64 {
        self.by_cause().iter().map(|(_, traffic)| traffic.packets).sum()
    }
}

fn show_times(f: &mut Formatter<'_>, name: &str, times: Option<Percentiles>) -> fmt::Result {
    let Some(times) = times else { return Ok(()) };
    let span = Span::from_secs_f64;
    let (median, most, longest) = (span(times.p50_seconds), span(times.p99_seconds), span(times.maximum_seconds));
    writeln!(f, "  {name}: median {median}, p99 {most}, maximum {longest}")
}

fn show_flow(f: &mut Formatter<'_>, flow: &Flow) -> fmt::Result {
    let name = flow.name.as_deref().unwrap_or("without addresses");
    let traffic = &flow.traffic;
    writeln!(
        f,
        "    {name}: delivered {}, dropped {} packets",
        traffic_rate(&traffic.delivered),
        traffic.dropped.packets
    )
}

fn traffic_rate(traffic: &Traffic) -> Rate {
    Rate::from_f64(traffic.bits_per_second)
}
