use super::sessions::{NatSessionStatus, PhaseCounts, RemoteSessions, SessionCounters, SessionPhase, SessionRole};
use kumade_daemon::{UNKNOWN_VALUE, format_age, write_table};
use kumade_units::Span;
use std::fmt::{self, Display, Formatter};

/// So many sessions are shown.
const MAX_SHOWN_SESSIONS: usize = 20;
/// Timers that end sooner are shown to the millisecond.
const MAX_PRECISE_TIMER_SECONDS: f64 = 10.0;

impl Display for RemoteSessions {
    /// Two lines, without an end of line after the last.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = match (self.reachable, self.connected) {
            (true, _) => "connected",
            (false, true) => "does not answer",
            (false, false) => "not connected",
        };
        writeln!(f, "{state}; sessions of flows to it: {}; from it: {}", self.divided, self.restored)?;
        write!(f, "  since the start: {}", self.counters)
    }
}

impl Display for PhaseCounts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_counts(f, "none", self.named_counts())
    }
}

impl Display for SessionCounters {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = [
            ("begun", self.begun),
            ("confirmed", self.accepted),
            ("refused", self.refused),
            ("idle", self.idle),
            ("unanswered", self.unanswered),
            ("asked for again", self.asked_again),
            ("without a free alias", self.no_alias),
            ("beyond the maximum", self.full),
            ("without a rule of the system", self.failed),
            ("granted", self.granted),
            ("denied", self.denied),
            ("lapsed", self.lapsed),
            ("restarts of the remote gateway", self.restarts),
            ("losses of the remote gateway", self.losses),
            ("messages sent again", self.retransmissions),
            ("messages ignored", self.ignored_messages),
            ("messages beyond the rate", self.rate_limited_messages),
        ];
        write_counts(f, "no sessions", counts)
    }
}

impl Display for SessionRole {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SessionRole::Divides => "divides",
            SessionRole::Restores => "restores",
        })
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
    let heads = ["flow", "remote", "role", "phase", "for", "timer", "tries", "packets", "bytes", "idle"];
    write_table(f, "  ", heads, sessions.iter().take(MAX_SHOWN_SESSIONS).map(session_row))?;
    let reasons =
        sessions.iter().take(MAX_SHOWN_SESSIONS).filter_map(|session| Some((session, session.reason.as_ref()?)));
    for (session, reason) in reasons {
        write!(f, "\n  {} is not divided: {reason}", session.flow)?;
    }
    Ok(())
}

fn session_row(session: &NatSessionStatus) -> [String; 10] {
    [
        session.flow.clone(),
        session.remote.clone(),
        session.role.to_string(),
        session.phase.to_string(),
        format_age(session.duration_seconds),
        session.show_timer(),
        session.tries.to_string(),
        session.traffic.packets.to_string(),
        session.traffic.bytes.to_string(),
        format_age(session.idle_seconds),
    ]
}

/// Those that are not zero, behind their names.
fn write_counts<const N: usize>(f: &mut Formatter<'_>, if_none: &str, counts: [(&str, u64); N]) -> fmt::Result {
    let said = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
    let said: Vec<_> = said.collect();
    f.write_str(if said.is_empty() { if_none } else { "" })?;
    f.write_str(&said.join(", "))
}
