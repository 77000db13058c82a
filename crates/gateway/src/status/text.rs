use super::session_text::show_sessions;
use super::{GatewayPathStatus, GatewayStatus, PlaneKind, RemotePath, RemoteSiteStatus};
use kumade_daemon::{UNKNOWN_VALUE, format_age, format_percent, format_rate, write_table};
use std::fmt::{self, Display, Formatter};

impl Display for GatewayStatus {
    /// Tables for people, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plane = match self.plane {
            PlaneKind::Direct => "direct",
            PlaneKind::Bonded => "bonded",
        };
        write!(f, "{} ({plane}), running for {}", self.name, format_age(self.duration_seconds))?;
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

fn show_paths(f: &mut Formatter<'_>, paths: &[GatewayPathStatus]) -> fmt::Result {
    let heads = ["path", "interface", "state", "sent", "share", "packets", "bytes"];
    let row = |path: &GatewayPathStatus| {
        let state = format!("{} {}", if path.up { "up" } else { "down" }, format_age(path.state_seconds));
        let GatewayPathStatus { name, interface, sent, share_ratio, .. } = path;
        let (packets, bytes) = (sent.packets.to_string(), sent.bytes.to_string());
        [
            name.clone(),
            interface.clone(),
            state,
            format_rate(sent.bits_per_second),
            format_percent(*share_ratio),
            packets,
            bytes,
        ]
    };
    write_table(f, "", heads, paths.iter().map(row))
}

fn show_remote(f: &mut Formatter<'_>, remote: &RemoteSiteStatus) -> fmt::Result {
    match (&remote.tunnel, &remote.sessions) {
        (Some(tunnel), _) => write!(f, "\n\n{}: {tunnel}", remote.name)?,
        (None, Some(sessions)) => write!(f, "\n\n{}: {sessions}", remote.name)?,
        (None, None) => write!(f, "\n\n{}: packets are divided", remote.name)?,
    }
    let is_shown = |path: &&RemotePath| path.weight.is_some() || path.measured.is_some();
    let rows: Vec<_> = remote.paths.iter().filter(is_shown).map(remote_row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let heads = ["path", "weight", "measured rate", "available", "loss", "measured"];
    write_table(f, "  ", heads, rows.into_iter())?;
    for (path, error) in remote.paths.iter().filter_map(|path| Some((path, path.measured.as_ref()?.error.as_ref()?))) {
        write!(f, "\n  {} cannot be measured: {error}", path.name)?;
    }
    Ok(())
}

fn remote_row(path: &RemotePath) -> [String; 6] {
    let weight = path.weight.map_or_else(|| UNKNOWN_VALUE.to_owned(), |weight| weight.to_string());
    let measured = path.measured.clone().unwrap_or_default();
    [
        path.name.clone(),
        weight,
        format_rate(measured.rate_bits_per_second),
        format_rate(measured.available_bits_per_second.map(|available| available.value)),
        format_percent(measured.loss_ratio.map(|loss| loss.value)),
        measured.age_seconds.map_or_else(|| UNKNOWN_VALUE.to_owned(), |seconds| format!("{} ago", format_age(seconds))),
    ]
}
