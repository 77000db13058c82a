//! The right to write an archive that several hosts could, and what the one that has it tells the others.

use crate::config::MonitorConfig;
use crate::status::{LeaderStatus, MonitorStatus};
use kumade_archive::{AnyStore, ArchiveError, Leader, PostgresStore};
use kumade_planner::{Election, ElectionStep, LeaderRecord, TAKE_OVER_AFTER};
use kumade_units::Time;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The right to write a shared archive, until another takes it over.
#[derive(Debug)]
pub struct Leadership {
    pub(crate) store: PostgresStore,
    pub(crate) election: Election,
}

/// That this host leads.
#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) election: Election,
    /// Another has taken over.
    pub(crate) deposed: Arc<AtomicBool>,
    pub(crate) next_connection: Time,
    pub(crate) next_status: Time,
}

impl Leading {
    /// Writes what a leadership stands for.
    pub(crate) fn begin(leadership: Leadership, now: Time) -> (AnyStore, Option<Leading>) {
        let Leadership { store, election } = leadership;
        let leading = Leading { election, deposed: Arc::default(), next_connection: now, next_status: now };
        (store.into(), Some(leading))
    }
}

/// A host that waits for it.
#[derive(Debug)]
pub(crate) struct Candidate {
    store: PostgresStore,
    election: Election,
    name: String,
    leader: Option<Leader>,
}

impl Candidate {
    /// Connects; makes the archive where there is none. None where it is in a file.
    pub(crate) fn new(config: &MonitorConfig, now: Time) -> Result<Option<Self>, ArchiveError> {
        let Some(address) = &config.database else { return Ok(None) };
        let (store, election) = (PostgresStore::open(address)?, Election::new(now));
        Ok(Some(Candidate { store, election, name: config.name.clone(), leader: None }))
    }

    /// Does what is due; returns whether this host leads from now on.
    pub(crate) fn advance(&mut self, now: Time) -> Result<bool, ArchiveError> {
        while let Some(step) = self.election.next_step(now) {
            match step {
                ElectionStep::Read => {
                    let leader = self.store.leader()?;
                    self.election.read(&LeaderRecord { epoch: leader.epoch, age: leader.age }, now);
                    self.leader = Some(leader);
                }
                ElectionStep::Take { epoch } => {
                    let taken = self.store.take_over(epoch, TAKE_OVER_AFTER, &self.name)?;
                    if self.election.taken(taken) {
                        return Ok(true);
                    }
                }
                // One that waits has nothing to renew.
                ElectionStep::Renew { .. } => {}
            }
        }
        Ok(false)
    }

    /// What the leader sees, and as of when; none if that is what is known.
    pub(crate) fn seen(&mut self, known: Option<Time>) -> Result<Option<(Time, Vec<u8>)>, ArchiveError> {
        self.store.seen(known)
    }

    /// Who leads, as of the last look.
    pub(crate) fn leader_status(&self) -> Option<LeaderStatus> {
        let leader = self.leader.as_ref().filter(|leader| leader.epoch > 0)?;
        Some(LeaderStatus { name: leader.name.clone(), is_this: false, silent_seconds: leader.age.as_secs_f64() })
    }

    pub(crate) fn into_leadership(self) -> Leadership {
        Leadership { store: self.store, election: self.election }
    }
}

pub(crate) fn encode_status(status: &MonitorStatus) -> Vec<u8> {
    // Numbers and texts always can be written.
    let text = serde_json::to_vec(status).unwrap_or_default();
    snap::raw::Encoder::new().compress_vec(&text).unwrap_or_default()
}

/// None of what another version has written.
pub(crate) fn decode_status(bytes: &[u8]) -> Option<MonitorStatus> {
    let text = snap::raw::Decoder::new().decompress_vec(bytes).ok()?;
    serde_json::from_slice(&text).ok()
}
