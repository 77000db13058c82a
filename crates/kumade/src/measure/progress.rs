//! A measurement's progress, on standard error if that is a terminal.

use crate::text::sparkline;
use indicatif::{ProgressBar, ProgressStyle};
use kumade_measurement::Event;
use kumade_measurement::report::Bytes;
use kumade_units::{Direction, Span};
use std::thread;
use std::time::Duration;

/// A line that shows what is being done, and how the estimate converges.
pub struct Progress {
    bar: ProgressBar,
    /// The direction that is measured.
    direction: Option<Direction>,
    /// Its estimates so far, in bit/s.
    estimates: Vec<Option<f64>>,
}

/// The last so many estimates are shown.
const MAX_ESTIMATE_BARS: usize = 24;

impl Progress {
    /// Shown or hidden.
    pub fn new(shown: bool) -> Self {
        let bar = if shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_message("connecting");
        // The library panics where no thread can be started: one is, and its memory is free again for the library's.
        if shown && thread::Builder::new().spawn(|| ()).is_ok_and(|attempt| attempt.join().is_ok()) {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { bar, direction: None, estimates: Vec::new() }
    }

    /// Shows that this has happened.
    pub fn show_event(&mut self, event: &Event) {
        if let Event::Train { direction, available_bits_per_second, .. } = event {
            if self.direction.replace(*direction) != Some(*direction) {
                self.estimates.clear();
            }
            self.estimates.push(available_bits_per_second.map(|rate| rate.as_f64()));
        }
        self.bar.set_message(self.describe_event(event));
    }

    /// What is to be said of this also where no line is shown: for whom it is waited, and what is about to take long.
    pub fn lasting_note(&self, event: &Event) -> Option<String> {
        match event {
            Event::HostInUse { holder } => Some(format!("waiting for {holder}, which measures at this host")),
            Event::PortsBegin { .. } | Event::IdleFlowsBegin { .. } => Some(self.describe_event(event)),
            _ => None,
        }
    }

    /// Lets something else be written.
    pub fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Removes the line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn describe_event(&self, event: &Event) -> String {
        match event {
            Event::HostInUse { holder } => format!("waiting for {holder}"),
            Event::Connected { peer, round_trip_seconds } => {
                format!("connected to {peer}, round-trip time {}", Span::from_secs_f64(*round_trip_seconds))
            }
            Event::Waiting { ahead: 1 } => "queued: 1 measurement ahead".to_owned(),
            Event::Waiting { ahead } => format!("queued: {ahead} measurements ahead"),
            Event::Opened { connections: 0, .. } => "measuring over UDP".to_owned(),
            Event::Opened { connections: 1, .. } => "measuring over 1 TCP connection".to_owned(),
            Event::Opened { connections, .. } => format!("measuring over {connections} TCP connections"),
            Event::Train { direction, number, available_bits_per_second, .. } => match available_bits_per_second {
                Some(rate) => format!("{direction}: train {number}, estimate {rate} {}", self.estimate_bars()),
                None => format!("{direction}: train {number}"),
            },
            Event::Capacity { direction, .. } => format!("{direction}: capacity measured"),
            Event::Done { direction, .. } => format!("{direction}: done"),
            Event::TraceBegins { direction, max_packets, max_duration_seconds } => {
                let time = Span::from_secs_f64(*max_duration_seconds);
                format!("asking the routers on the way {direction}: up to {max_packets} packets, {time}")
            }
            Event::QueuesBegin { direction, max_bytes, max_duration_seconds } => {
                let (bytes, time) = (Bytes(*max_bytes), Span::from_secs_f64(*max_duration_seconds));
                format!(
                    "{direction}: filling the path for up to a second at once, to see its queues: up to {bytes}, {time}"
                )
            }
            Event::PortsBegin { ports, max_tries, max_bytes, max_duration_seconds } => {
                let (time, bytes) = (Span::from_secs_f64(*max_duration_seconds), Bytes(*max_bytes));
                format!("trying {ports} ports: up to {max_tries} packets and connections, {bytes}, {time}")
            }
            Event::IdleFlowsBegin { flows, max_idle_seconds, max_duration_seconds } => {
                let [idle, time] =
                    [max_idle_seconds, max_duration_seconds].map(|seconds| Span::from_secs_f64(*seconds));
                format!("leaving {flows} flows idle for up to {idle}: takes up to {time}")
            }
            Event::FlowsIdle { seconds, of_seconds } => {
                format!("flows are idle: {seconds:.0} of {of_seconds:.0} s")
            }
            Event::LoadBegins { direction, duration_seconds } => {
                format!("{direction}: TCP connections fill the path for {}", Span::from_secs_f64(*duration_seconds))
            }
            Event::LoadDone { direction, .. } => format!("{direction}: done"),
        }
    }

    fn estimate_bars(&self) -> String {
        let first = self.estimates.len().saturating_sub(MAX_ESTIMATE_BARS);
        sparkline(self.estimates[first..].iter().copied())
    }
}
