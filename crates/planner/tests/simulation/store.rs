//! The store that both coordinators share: what it has committed is never lost.

use kumade_planner::{ElectionStep, LeaderRecord, TAKE_OVER_AFTER, TokenRecord};
use kumade_units::Time;

#[derive(Default)]
pub struct Store {
    record: TokenRecord,
    renewed: Time,
    /// Whether records of former epochs are stored, too: a fault that the simulation must show.
    pub ignores_epoch: bool,
}

#[derive(Clone, Debug)]
pub enum StoreRequest {
    Election(ElectionStep),
    Persist(TokenRecord),
}

#[derive(Clone, Debug)]
pub enum StoreReply {
    Read(LeaderRecord),
    Renewed(bool),
    /// What the new leader begins with.
    Taken(Option<TokenRecord>),
    /// The number that was stored; none for a former leader.
    Persisted {
        epoch: u64,
        number: Option<u64>,
    },
}

impl Store {
    /// One transaction.
    pub fn execute(&mut self, request: StoreRequest, now: Time) -> StoreReply {
        match request {
            StoreRequest::Election(ElectionStep::Read) => {
                StoreReply::Read(LeaderRecord { epoch: self.record.epoch, age: now - self.renewed })
            }
            StoreRequest::Election(ElectionStep::Renew { epoch }) => {
                let is_leader = self.record.epoch == epoch;
                self.renewed = if is_leader { now } else { self.renewed };
                StoreReply::Renewed(is_leader || self.ignores_epoch)
            }
            StoreRequest::Election(ElectionStep::Take { epoch }) => {
                let is_stale = epoch == 0 || now - self.renewed >= TAKE_OVER_AFTER;
                if epoch != self.record.epoch || !is_stale {
                    return StoreReply::Taken(None);
                }
                (self.record, self.renewed) = (self.record.next_epoch(), now);
                StoreReply::Taken(Some(self.record))
            }
            StoreRequest::Persist(record) => {
                let is_leader = self.record.epoch == record.epoch;
                if is_leader && record.number >= self.record.number {
                    self.record = record;
                }
                let number = (is_leader || self.ignores_epoch).then_some(record.number);
                StoreReply::Persisted { epoch: record.epoch, number }
            }
        }
    }
}
