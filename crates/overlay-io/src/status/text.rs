use crate::status::tunnel::{Tunnel, TunnelPath};
use kumade_daemon::{Column, format_age, format_known, format_percent, format_rate, write_columns};
use kumade_units::Span;
use std::fmt::{self, Display, Formatter};

const PATH_COLUMNS: [Column<TunnelPath>; 11] = [
    ("path", |path| path.name.clone()),
    ("state", |path| format!("{} {}", path.state, format_age(path.state_seconds))),
    ("round trip", |path| format_known(path.round_trip_seconds.map(Span::from_secs_f64))),
    ("carries", |path| format_rate(Some(path.rate_bits_per_second))),
    ("sent", |path| format_rate(path.sent.bits_per_second)),
    ("delivered", |path| format_rate(path.delivered.bits_per_second)),
    ("received", |path| format_rate(path.received.bits_per_second)),
    ("share", |path| format_percent(path.share_ratio)),
    ("loss", |path| format_percent(Some(path.loss_ratio))),
    ("queue", |path| Span::from_secs_f64(path.queue_seconds).to_string()),
    ("MTU", |path| format_known(path.mtu_bytes)),
];

impl Display for Tunnel {
    /// A line, a table of the paths, and lines about queue and order, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Tunnel { connected, state_seconds, key_changes, losses, restarts, threads, .. } = self;
        let state = if *connected { "connected" } else { "not connected" };
        write!(f, "{state} for {}, key changes: {key_changes}", format_age(*state_seconds))?;
        if *losses > 0 {
            write!(f, ", losses: {losses}")?;
        }
        if *restarts > 0 {
            write!(f, ", restarts: {restarts}")?;
        }
        if let Some(threads) = threads {
            write!(f, ", threads: {threads}")?;
        }
        write_columns(f, "  ", &PATH_COLUMNS, self.paths.iter())?;
        let Tunnel { queued_packets, dropped_packets, saved_header_bytes, undecompressed_packets, .. } = self;
        write!(f, "\n  {queued_packets} packets wait to be sent, the queue has dropped {dropped_packets}")?;
        if saved_header_bytes + undecompressed_packets > 0 {
            write!(f, "\n  compressed headers have saved {saved_header_bytes} bytes")?;
        }
        if *undecompressed_packets > 0 {
            write!(f, ", {undecompressed_packets} packets could not be decompressed")?;
        }
        self.resequencing.to_string().lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}
