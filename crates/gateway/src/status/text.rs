use super::session_text::show_sessions;
use super::{GatewayPathStatus, GatewayStatus, MeasuredStatus, PlaneKind, RemotePath, RemoteSiteStatus};
use kumade_daemon::{Column, format_age, format_known, format_percent, format_rate, write_columns};
use kumade_probe_train::Estimate;
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
            write_columns(f, "", &PATH_COLUMNS, self.paths.iter())?;
        }
        self.remotes.iter().try_for_each(|remote| show_remote(f, remote))?;
        if let Some(refused) = &self.refused {
            write!(f, "\nrefused: {refused}")?;
        }
        show_sessions(f, &self.sessions, self.session_count)
    }
}

const PATH_COLUMNS: [Column<GatewayPathStatus>; 7] = [
    ("path", |path| path.name.clone()),
    ("interface", |path| path.interface.clone()),
    ("state", |path| format!("{} {}", if path.up { "up" } else { "down" }, format_age(path.state_seconds))),
    ("sent", |path| format_rate(path.sent.bits_per_second)),
    ("share", |path| format_percent(path.share_ratio)),
    ("packets", |path| path.sent.packets.to_string()),
    ("bytes", |path| path.sent.bytes.to_string()),
];

fn show_remote(f: &mut Formatter<'_>, remote: &RemoteSiteStatus) -> fmt::Result {
    match (&remote.tunnel, &remote.sessions) {
        (Some(tunnel), _) => write!(f, "\n\n{}: {tunnel}", remote.name)?,
        (None, Some(sessions)) => write!(f, "\n\n{}: {sessions}", remote.name)?,
        (None, None) => write!(f, "\n\n{}: packets are divided", remote.name)?,
    }
    let is_shown = |path: &&RemotePath| path.weight.is_some() || path.measured.is_some();
    let mut shown = remote.paths.iter().filter(is_shown).peekable();
    if shown.peek().is_none() {
        return Ok(());
    }
    write_columns(f, "  ", &REMOTE_PATH_COLUMNS, shown)?;
    for (path, error) in remote.paths.iter().filter_map(|path| Some((path, path.measured.as_ref()?.error.as_ref()?))) {
        write!(f, "\n  {} cannot be measured: {error}", path.name)?;
    }
    Ok(())
}

const REMOTE_PATH_COLUMNS: [Column<RemotePath>; 6] = [
    ("path", |path| path.name.clone()),
    ("weight", |path| format_known(path.weight)),
    ("measured rate", |path| format_rate(path.measured.as_ref().and_then(|known| known.rate_bits_per_second))),
    ("available", |path| format_rate(measured_value(path, |known| known.available_bits_per_second))),
    ("loss", |path| format_percent(measured_value(path, |known| known.loss_ratio))),
    ("measured", |path| {
        let age = path.measured.as_ref().and_then(|known| known.age_seconds);
        format_known(age.map(|seconds| format!("{} ago", format_age(seconds))))
    }),
];

fn measured_value(path: &RemotePath, part: fn(&MeasuredStatus) -> Option<Estimate<f64>>) -> Option<f64> {
    Some(part(path.measured.as_ref()?)?.value)
}
