use crate::status::{self, GatewayStatus, NatSessionStatus, PhaseCounts, RefusedTraffic, Traffic};
use kumade_multipath::nat_session::{NatRole, NatStatistics, SessionPhase, SessionStatus};
use kumade_packet::{Addresses, FlowKey, protocol};
use kumade_units::Time;

/// The NAT sessions with all remote gateways.
#[derive(Debug, Clone)]
pub struct SessionsStatus {
    /// The time that those of the sessions are to be compared with.
    pub now: Time,
    /// By remote site that has sessions, in the order of the configuration.
    pub remotes: Vec<RemoteSessions>,
    /// Datagrams that no remote gateway has sealed.
    pub refused_datagrams: u64,
    /// Handshakes of strangers, and copies.
    pub refused_handshakes: u64,
}

/// The NAT sessions with the gateway of one remote site.
#[derive(Debug, Clone)]
pub struct RemoteSessions {
    /// The site's name.
    pub remote: String,
    /// Whether there are keys.
    pub is_connected: bool,
    /// Whether it answers.
    pub is_reachable: bool,
    /// What has become of sessions so far.
    pub statistics: NatStatistics,
    /// The sessions that there are, those of flows that this gateway sends first.
    pub sessions: Vec<SessionStatus>,
}

impl SessionsStatus {
    /// Enters the sessions, and what has become of earlier ones, into the status of the gateway, which has the names.
    pub fn fill_status(&self, status: &mut GatewayStatus) {
        for known in &self.remotes {
            let remote = status.remotes.iter_mut().find(|remote| remote.name == known.remote);
            remote.into_iter().for_each(|remote| remote.sessions = Some(known.summarize_sessions()));
        }
        let sessions = self.remotes.iter().flat_map(|one| one.sessions.iter().map(move |session| (one, session)));
        status.session_count = sessions.clone().count() as u64;
        let described = sessions.take(GatewayStatus::MAX_SESSIONS);
        status.sessions = described.map(|(remote, session)| self.describe_session(&remote.remote, session)).collect();
        status.refused = Some(RefusedTraffic {
            datagrams: self.refused_datagrams,
            handshakes: self.refused_handshakes,
            ..RefusedTraffic::default()
        });
    }

    fn describe_session(&self, remote: &str, session: &SessionStatus) -> NatSessionStatus {
        let (phase, reason) = document_phase(session.phase);
        NatSessionStatus {
            remote: remote.to_owned(),
            flow: flow_name(&session.flow),
            aliases: session
                .aliases
                .iter()
                .map(|Addresses { source, destination }| format!("{source} > {destination}"))
                .collect(),
            role: session.role,
            phase,
            reason,
            duration_seconds: (self.now - session.since).as_secs_f64(),
            traffic: Traffic { packets: session.packets, bytes: session.bytes, bits_per_second: None },
            idle_seconds: (self.now - session.last_used).as_secs_f64(),
            // What is due is done at the next turn.
            deadline_seconds: session.deadline.map(|deadline| (deadline - self.now).as_secs_f64().max(0.0)),
            tries: session.tries,
        }
    }
}

impl RemoteSessions {
    fn summarize_sessions(&self) -> status::RemoteSessions {
        let mut divided = PhaseCounts::default();
        let is_sending = |session: &&SessionStatus| session.role == NatRole::Divides;
        self.sessions.iter().filter(is_sending).for_each(|session| divided.increment(document_phase(session.phase).0));
        status::RemoteSessions {
            connected: self.is_connected,
            reachable: self.is_reachable,
            divided,
            restored: self.sessions.iter().filter(|session| !is_sending(session)).count() as u64,
            counters: self.statistics,
        }
    }
}

/// As documents name it, and why it was refused.
fn document_phase(phase: SessionPhase) -> (status::SessionPhase, Option<String>) {
    use status::SessionPhase as Documented;
    match phase {
        SessionPhase::Waiting => (Documented::Waiting, None),
        SessionPhase::Asking => (Documented::Asking, None),
        SessionPhase::Active => (Documented::Active, None),
        SessionPhase::Ending => (Documented::Ending, None),
        SessionPhase::Refused(Some(reason)) => (Documented::Refused, Some(reason.to_string())),
        SessionPhase::Refused(None) => {
            (Documented::Refused, Some("no alias is free, or this gateway's system refuses the rule".to_owned()))
        }
        SessionPhase::Unanswered => (Documented::Unanswered, None),
    }
}

fn flow_name(flow: &FlowKey) -> String {
    let FlowKey { protocol, source, destination } = flow;
    let kind = if *protocol == protocol::TCP { "tcp" } else { "udp" };
    format!("{kind} {source} > {destination}")
}
