use crate::message::ConnectRefusal;
use crate::target::Target;
use kumade_noise_session::PublicKey;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Why a connection was not carried: for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayReport {
    /// At the far end: a peer asked for what it may not reach.
    NotAllowed {
        /// Who.
        peer: PublicKey,
        /// What.
        target: Target,
    },
    /// At the near end: the far end could not or would not connect.
    Refused {
        /// Where to.
        target: Target,
        /// Why not.
        refusal: ConnectRefusal,
    },
    /// At the near end: there is no connection to the far end.
    Unreachable {
        /// Where it should listen.
        address: SocketAddr,
        /// Why.
        cause: String,
    },
}

/// What one end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RelayStatus {
    /// Connections that are carried now.
    pub connections: usize,
    /// Connections that were opened in all.
    pub opened: u64,
    /// Connections that were not carried: to what is not allowed, or not reached.
    pub refused: u64,
    /// Bytes of connections that have gone to the other end.
    pub sent_bytes: u64,
    /// Bytes of connections that have come from there.
    pub received_bytes: u64,
}

/// Reports that nobody has read yet.
#[derive(Debug, Default)]
pub(crate) struct ReportQueue(VecDeque<RelayReport>);

/// Further ones are dropped: who makes them is not to fill memory or the terminal.
const MAX_REPORTS: usize = 32;

impl ReportQueue {
    pub(crate) fn push(&mut self, report: RelayReport) {
        if self.0.len() < MAX_REPORTS && self.0.back() != Some(&report) {
            self.0.push_back(report);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<RelayReport> {
        self.0.drain(..).collect()
    }
}
