use super::session_text::show_sessions;
use super::table::{NONE, age, percent, rate, show_table};
use super::{Path, PathState, PlaneKind, Refused, Remote, RemotePath, Resequencing, Status, Tunnel, TunnelPath};
use std::fmt::{self, Display, Formatter};
use units::Span;

impl Display for Status {
    /// Tables for people, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plane = match self.plane {
            PlaneKind::Direct => "direct",
            PlaneKind::Bonded => "bonded",
        };
        write!(f, "{} ({plane}), running for {}", self.name, age(self.duration_seconds))?;
        if self.plane == PlaneKind::Direct {
            show_paths(f, &self.paths)?;
        }
        self.remotes.iter().try_for_each(|remote| show_remote(f, remote))?;
        if let Some(refused) = &self.refused {
            write!(f, "\nrefused: {refused}")?;
        }
        show_sessions(f, &self.sessions, self.session_count)
    }
}

impl Display for PathState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathState::Probing => "probing",
            PathState::Up => "up",
            PathState::Down => "down",
        })
    }
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.unroutable_packets, "packets to no remote network"),
            (self.foreign_source_packets, "packets with sources of no network of their site"),
            (self.datagrams, "datagrams that are not authentic"),
            (self.handshakes, "handshakes"),
            (self.output_packets, "packets by the system"),
        ];
        let said: Vec<_> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if said.is_empty() { "nothing" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}

impl Display for Resequencing {
    /// Three lines, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Resequencing { waiting_packets, max_depth_packets, waits, .. } = self;
        writeln!(
            f,
            "resequencing: {waiting_packets} packets wait, {max_depth_packets} at most in one part of the flows"
        )?;
        match waits {
            Some(waits) => {
                let span = Span::from_secs_f64;
                let (median, most) = (span(waits.p50_seconds), span(waits.p99_seconds));
                let longest = span(waits.maximum_seconds);
                writeln!(
                    f,
                    "{} have waited: half up to {median}, 99 % up to {most}, longest {longest}",
                    waits.packets
                )?;
            }
            None => writeln!(f, "none has waited yet")?,
        }
        let Resequencing { lost_packets, late_packets, duplicate_packets, expired_waits, .. } = self;
        write!(f, "declared lost {lost_packets}, late {late_packets}, copies dropped {duplicate_packets}, ")?;
        write!(f, "released by the timer {expired_waits}")
    }
}

fn show_paths(f: &mut Formatter<'_>, paths: &[Path]) -> fmt::Result {
    let heads = ["path", "interface", "state", "sent", "share", "packets", "bytes"];
    let row = |path: &Path| {
        let state = format!("{} {}", if path.up { "up" } else { "down" }, age(path.state_seconds));
        let Path { name, interface, sent, share_ratio, .. } = path;
        let (packets, bytes) = (sent.packets.to_string(), sent.bytes.to_string());
        [name.clone(), interface.clone(), state, rate(sent.bits_per_second), percent(*share_ratio), packets, bytes]
    };
    show_table(f, "", heads, paths.iter().map(row))
}

fn show_remote(f: &mut Formatter<'_>, remote: &Remote) -> fmt::Result {
    match (&remote.tunnel, &remote.sessions) {
        (Some(tunnel), _) => show_tunnel(f, &remote.name, tunnel)?,
        (None, Some(sessions)) => write!(f, "\n\n{}: {sessions}", remote.name)?,
        (None, None) => write!(f, "\n\n{}: packets are divided", remote.name)?,
    }
    let is_shown = |path: &&RemotePath| path.weight.is_some() || path.measured.is_some();
    let rows: Vec<_> = remote.paths.iter().filter(is_shown).map(remote_row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let heads = ["path", "weight", "measured rate", "available", "loss", "measured"];
    show_table(f, "  ", heads, rows.into_iter())?;
    for (path, error) in remote.paths.iter().filter_map(|path| Some((path, path.measured.as_ref()?.error.as_ref()?))) {
        write!(f, "\n  {} cannot be measured: {error}", path.name)?;
    }
    Ok(())
}

fn remote_row(path: &RemotePath) -> [String; 6] {
    let weight = path.weight.map_or_else(|| NONE.to_owned(), |weight| weight.to_string());
    let measured = path.measured.clone().unwrap_or_default();
    [
        path.name.clone(),
        weight,
        rate(measured.rate_bits_per_second),
        rate(measured.available_bits_per_second.map(|available| available.value)),
        percent(measured.loss_ratio.map(|loss| loss.value)),
        measured.age_seconds.map_or_else(|| NONE.to_owned(), |seconds| format!("{} ago", age(seconds))),
    ]
}

fn show_tunnel(f: &mut Formatter<'_>, name: &str, tunnel: &Tunnel) -> fmt::Result {
    let Tunnel { connected, state_seconds, key_changes, restarts, queued_packets, dropped_packets, threads, .. } =
        tunnel;
    let state = if *connected { "connected" } else { "not connected" };
    write!(f, "\n\n{}: {state} for {}, key changes: {key_changes}", name, age(*state_seconds))?;
    if *restarts > 0 {
        write!(f, ", restarts: {restarts}")?;
    }
    if let Some(threads) = threads {
        write!(f, ", threads: {threads}")?;
    }
    let heads =
        ["path", "state", "round trip", "carries", "sent", "delivered", "received", "share", "loss", "queue", "MTU"];
    show_table(f, "  ", heads, tunnel.paths.iter().map(tunnel_row))?;
    write!(f, "\n  {queued_packets} packets wait to be sent, the queue has dropped {dropped_packets}")?;
    tunnel.resequencing.to_string().lines().try_for_each(|line| write!(f, "\n  {line}"))
}

fn tunnel_row(path: &TunnelPath) -> [String; 11] {
    let span = |seconds: f64| Span::from_secs_f64(seconds).to_string();
    [
        path.name.clone(),
        format!("{} {}", path.state, age(path.state_seconds)),
        path.round_trip_seconds.map_or_else(|| NONE.to_owned(), span),
        rate(Some(path.rate_bits_per_second)),
        rate(path.sent.bits_per_second),
        rate(path.delivered.bits_per_second),
        rate(path.received.bits_per_second),
        percent(path.share_ratio),
        percent(Some(path.loss_ratio)),
        span(path.queue_seconds),
        path.mtu_bytes.map_or_else(|| NONE.to_owned(), |bytes| bytes.to_string()),
    ]
}
