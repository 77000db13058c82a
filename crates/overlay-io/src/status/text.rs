use crate::status::tunnel::{Tunnel, TunnelPath};
use kumade_daemon::{UNKNOWN_VALUE, format_age, format_percent, format_rate, write_table};
use kumade_units::Span;
use std::fmt::{self, Display, Formatter};

impl Display for Tunnel {
    /// A line, a table of the paths, and lines about queue and order, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Tunnel {
            connected,
            state_seconds,
            key_changes,
            losses,
            restarts,
            queued_packets,
            dropped_packets,
            threads,
            ..
        } = self;
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
        let heads = [
            "path",
            "state",
            "round trip",
            "carries",
            "sent",
            "delivered",
            "received",
            "share",
            "loss",
            "queue",
            "MTU",
        ];
        write_table(f, "  ", heads, self.paths.iter().map(tunnel_row))?;
        write!(f, "\n  {queued_packets} packets wait to be sent, the queue has dropped {dropped_packets}")?;
        self.resequencing.to_string().lines().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

fn tunnel_row(path: &TunnelPath) -> [String; 11] {
    let span = |seconds: f64| Span::from_secs_f64(seconds).to_string();
    [
        path.name.clone(),
        format!("{} {}", path.state, format_age(path.state_seconds)),
        path.round_trip_seconds.map_or_else(|| UNKNOWN_VALUE.to_owned(), span),
        format_rate(Some(path.rate_bits_per_second)),
        format_rate(path.sent.bits_per_second),
        format_rate(path.delivered.bits_per_second),
        format_rate(path.received.bits_per_second),
        format_percent(path.share_ratio),
        format_percent(Some(path.loss_ratio)),
        span(path.queue_seconds),
        path.mtu_bytes.map_or_else(|| UNKNOWN_VALUE.to_owned(), |bytes| bytes.to_string()),
    ]
}
