use super::{Direction, Document, Flow, Percentiles, Traffic};
use std::fmt::{self, Display, Formatter};
use units::{Rate, Span};

/// So many flows are shown of each direction.
const MAX_FLOWS: usize = 8;

impl Display for Document {
    /// Some lines for people, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.up, self.down)?;
        write!(f, "{}", self.verdict.message)
    }
}

impl Display for Direction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} > {}: {}", self.from, self.to, self.settings)?;
        let (offered, delivered) = (rate(&self.offered), rate(&self.delivered));
        writeln!(f, "  offered {offered}, delivered {delivered}, {} bytes wait", self.queued_bytes)?;
        let drops = &self.dropped;
        let causes = [
            ("queue full", drops.queue_full),
            ("by the discipline", drops.managed),
            ("by the policer", drops.policed),
            ("lost", drops.loss),
            ("refused", drops.refused),
            ("malformed", drops.malformed),
            ("too large", drops.too_large),
            ("overload", drops.overload),
            ("not taken", drops.output),
        ];
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
        show_times(f, "sojourn", self.sojourn)?;
        show_times(f, "lateness", self.lateness)?;
        if let Some(index) = self.fairness_index_ratio {
            writeln!(f, "  fairness index {index:.3} of {} active flow(s)", self.active_flows)?;
        }
        self.flows.iter().take(MAX_FLOWS).try_for_each(|flow| show_flow(f, flow))
    }
}

fn show_times(f: &mut Formatter<'_>, name: &str, times: Option<Percentiles>) -> fmt::Result {
    let Some(times) = times else { return Ok(()) };
    let span = Span::from_secs_f64;
    let (median, most, longest) = (span(times.p50_seconds), span(times.p99_seconds), span(times.maximum_seconds));
    writeln!(f, "  {name}: half up to {median}, 99 % up to {most}, longest {longest}")
}

fn show_flow(f: &mut Formatter<'_>, flow: &Flow) -> fmt::Result {
    let name = flow.name.as_deref().unwrap_or("without addresses");
    let traffic = &flow.traffic;
    writeln!(f, "    {name}: delivered {}, dropped {} packets", rate(&traffic.delivered), traffic.dropped.packets)
}

fn rate(traffic: &Traffic) -> Rate {
    Rate::from_f64(traffic.bits_per_second)
}
