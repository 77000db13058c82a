use super::sessions::{NatSessionStatus, PhaseCounts, RemoteSessions, SessionPhase};
use kumade_daemon::{Column, UNKNOWN_VALUE, format_age, write_columns};
use kumade_multipath::nat_session::NatStatistics;
use kumade_units::Span;
use std::fmt::{self, Display, Formatter};

/// So many sessions are shown.
const MAX_SHOWN_SESSIONS: usize = 20;
/// Timers that end sooner are shown to the millisecond.
const MAX_PRECISE_TIMER_SECONDS: f64 = 10.0;

/// A counter's name and help text as a metric, its text for people, and its value.
type SessionCounter = (&'static str, &'static str, &'static str, fn(&NatStatistics) -> u64);

/// What has become of sessions. The names of the metrics begin with `sessions_`.
pub(crate) const SESSION_COUNTERS: [SessionCounter; 17] = [
    ("begun", "Flows for which a session was begun", "begun", |of| of.begun),
    ("accepted", "Requests that the remote gateway has confirmed", "confirmed", |of| of.accepted),
    ("refused", "Requests that it has refused", "refused", |of| of.refused),
    ("idle", "Sessions that ended because no packet passed", "idle", |of| of.idle),
    ("unanswered", "Requests and ends that were never answered", "unanswered", |of| of.unanswered),
    ("asked_again", "Sessions that the remote gateway had lost", "asked for again", |of| of.asked_again),
    ("no_alias", "Flows for which no aliases were free", "without a free alias", |of| of.no_alias),
    ("full", "Flows seen while there were as many sessions as may be", "beyond the maximum", |of| of.full),
    ("failed", "Flows for which the system took no rule", "without a rule of the system", |of| of.failed),
    ("granted", "Rules installed for the remote gateway", "granted", |of| of.granted),
    ("denied", "Requests of the remote gateway that were refused", "denied", |of| of.denied),
    ("lapsed", "Rules removed because they were no longer mentioned", "lapsed", |of| of.lapsed),
    ("remote_restarts", "Restarts of the remote gateway", "restarts of the remote gateway", |of| of.restarts),
    ("remote_losses", "Times that the remote gateway no longer answered", "losses of the remote gateway", |of| {
        of.losses
    }),
    ("retransmitted_messages", "Messages that were sent again", "messages sent again", |of| of.retransmissions),
    ("ignored_messages", "Messages of earlier lives, and those not understood", "messages ignored", |of| {
        of.ignored_messages
    }),
    ("rate_limited_messages", "Messages beyond the rate that is looked at", "messages beyond the rate", |of| {
        of.rate_limited_messages
    }),
];

impl Display for RemoteSessions {
    /// Two lines, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = match (self.reachable, self.connected) {
            (true, _) => "connected",
            (false, true) => "does not answer",
            (false, false) => "not connected",
        };
        writeln!(f, "{state}; sessions of flows to it: {}; from it: {}", self.divided, self.restored)?;
        write!(f, "  since the start: ")?;
        write_counts(f, "no sessions", SESSION_COUNTERS.map(|(.., text, count)| (text, count(&self.counters))))
    }
}

impl Display for PhaseCounts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_counts(f, "none", self.named_counts())
    }
}

impl Display for SessionPhase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SessionPhase::Waiting => "waiting",
            SessionPhase::Asking => "asking",
            SessionPhase::Active => "active",
            SessionPhase::Ending => "ending",
            SessionPhase::Refused => "refused",
            SessionPhase::Unanswered => "unanswered",
        })
    }
}

impl NatSessionStatus {
    /// The time left to its timer, for people; a dash where none runs.
    pub fn show_timer(&self) -> String {
        match self.deadline_seconds {
            None => UNKNOWN_VALUE.to_owned(),
            Some(seconds) if seconds < MAX_PRECISE_TIMER_SECONDS => {
                Span::from_millis((seconds * 1e3).round() as i64).to_string()
            }
            Some(seconds) => format_age(seconds),
        }
    }
}

/// A table, if there are any.
pub(super) fn show_sessions(f: &mut Formatter<'_>, sessions: &[NatSessionStatus], count: u64) -> fmt::Result {
    if count == 0 {
        return Ok(());
    }
    write!(f, "\n\nsessions: {count}")?;
    let shown = sessions.iter().take(MAX_SHOWN_SESSIONS);
    write_columns(f, "  ", &SESSION_COLUMNS, shown.clone())?;
    for (session, reason) in shown.filter_map(|session| Some((session, session.reason.as_ref()?))) {
        write!(f, "\n  {} is not divided: {reason}", session.flow)?;
    }
    Ok(())
}

const SESSION_COLUMNS: [Column<NatSessionStatus>; 10] = [
    ("flow", |session| session.flow.clone()),
    ("remote", |session| session.remote.clone()),
    ("role", |session| session.role.to_string()),
    ("phase", |session| session.phase.to_string()),
    ("for", |session| format_age(session.duration_seconds)),
    ("timer", |session| session.show_timer()),
    ("tries", |session| session.tries.to_string()),
    ("packets", |session| session.traffic.packets.to_string()),
    ("bytes", |session| session.traffic.bytes.to_string()),
    ("idle", |session| format_age(session.idle_seconds)),
];

/// Those that are not zero, behind their names.
fn write_counts<const N: usize>(f: &mut Formatter<'_>, if_none: &str, counts: [(&str, u64); N]) -> fmt::Result {
    let said = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
    let said: Vec<_> = said.collect();
    f.write_str(if said.is_empty() { if_none } else { "" })?;
    f.write_str(&said.join(", "))
}
