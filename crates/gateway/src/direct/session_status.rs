use crate::status::{Session, SessionRole, Status, Traffic};
use multipath::nat_session::{NatRole, NatStatistics, SessionPhase, SessionStatus};
use packet::{FlowKey, protocol};
use units::Time;

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
    /// Enters the sessions whose rules are in effect into the status of the gateway.
    pub fn fill(&self, status: &mut Status) {
        let sessions = self.remotes.iter().flat_map(|one| one.sessions.iter().map(move |session| (one, session)));
        let active = sessions.filter(|(_, session)| session.phase == SessionPhase::Active);
        status.session_count = active.clone().count() as u64;
        let described = active.take(Status::MAX_SESSIONS);
        status.sessions = described.map(|(remote, session)| self.describe(&remote.remote, session)).collect();
    }

    fn describe(&self, remote: &str, session: &SessionStatus) -> Session {
        Session {
            remote: remote.to_owned(),
            flow: name(&session.flow),
            role: match session.role {
                NatRole::Sending => SessionRole::Divides,
                NatRole::Receiving => SessionRole::Restores,
            },
            traffic: Traffic { packets: session.packets, bytes: session.bytes, bits_per_second: None },
            idle_seconds: (self.now - session.last_used).as_secs_f64(),
        }
    }
}

fn name(flow: &FlowKey) -> String {
    let FlowKey { protocol, source, destination } = flow;
    let kind = if *protocol == protocol::TCP { "tcp" } else { "udp" };
    format!("{kind} {source} > {destination}")
}
