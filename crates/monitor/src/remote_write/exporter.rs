//! What is read, sent and noted down next.

use super::delivery::{Answer, Delivery};
use super::encoding::encode_write_request;
use super::figures::{FigureBatch, ReadTimes, read_figures};
use super::position::Position;
use super::progress::RemoteWriteProgress;
use kumade_archive::{ArchiveError, PairId, ReadStore, Reader};
use kumade_units::{Span, Time};

/// Reads figures and says what to send. It has no clock and no socket: ask [`next_step`](Self::next_step), and do that.
#[derive(Debug)]
pub struct RemoteWriteExporter<S> {
    reader: Reader<S>,
    settle: Span,
    max_age: Span,
    /// Up to where all is delivered.
    position: Position,
    delivery: Delivery,
    /// Where the delivery ends.
    reached: Position,
    more_after: Option<PairId>,
    /// By the receiver's own clock; unknown at first.
    receiver_behind: Option<Span>,
    next_read: Option<Time>,
    progress: RemoteWriteProgress,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// Send this; report what came by [`RemoteWriteExporter::take_answer`].
    Send(Vec<u8>),
    /// Store this, by [`Position::STATE_KEY`].
    Store(Vec<u8>),
    /// Nothing until then, by the monotonic clock.
    Wait(Time),
}

/// Between two looks at the archive, which has figures of minutes.
const READ_INTERVAL: Span = Span::from_secs(10);
/// A `Date` has whole seconds, and takes time to come.
const MIN_CLOCK_DIFFERENCE: Span = Span::from_secs(2);
/// Until the receiver is asked for its clock again.
const ASK_INTERVAL: Span = Span::from_secs(10);

impl<S: ReadStore> RemoteWriteExporter<S> {
    /// Goes on after a position. Minutes are complete `settle` after their end; what is older than `max_age` is not sent.
    pub fn new(reader: Reader<S>, position: Position, settle: Span, max_age: Span) -> Self {
        RemoteWriteExporter {
            reader,
            settle,
            max_age,
            reached: position.clone(),
            position,
            delivery: Delivery::default(),
            more_after: None,
            receiver_behind: None,
            next_read: None,
            progress: RemoteWriteProgress::default(),
        }
    }

    /// How it goes.
    pub fn progress(&self) -> &RemoteWriteProgress {
        &self.progress
    }

    /// What is to be done now: `now` by the monotonic clock, `utc` the same moment by the clock of the day.
    ///
    /// # Errors
    /// The archive cannot be read: try again.
    pub fn next_step(&mut self, now: Time, utc: Time) -> Result<Wake, ArchiveError> {
        if let Some(request) = self.delivery.next_request(now) {
            return Ok(Wake::Send(encode_write_request(request)));
        }
        if !self.delivery.is_done() {
            return Ok(Wake::Wait(self.delivery.next_deadline().unwrap_or(now)));
        }
        if self.position != self.reached {
            self.position = self.reached.clone();
            self.delivery = Delivery::default();
            return Ok(Wake::Store(self.position.encode()));
        }
        if let Some(next) = self.next_read.filter(|next| *next > now) {
            return Ok(Wake::Wait(next));
        }
        let Some(receiver_behind) = self.receiver_behind else {
            // Nothing, to learn what time it is there.
            return Ok(Wake::Send(encode_write_request(&[])));
        };
        let times = ReadTimes::new(utc, receiver_behind, self.settle, self.max_age);
        let batch = read_figures(&mut self.reader, &self.position, times, self.more_after)?;
        Ok(self.take_batch(batch, now))
    }

    fn take_batch(&mut self, batch: FigureBatch, now: Time) -> Wake {
        let FigureBatch { samples, position, more_after } = batch;
        self.more_after = more_after;
        self.next_read = more_after.is_none().then(|| now + READ_INTERVAL);
        if samples.is_empty() {
            // Where nothing is sent, nothing needs to be noted down.
            (self.position, self.reached) = (position.clone(), position);
            return Wake::Wait(self.next_read.unwrap_or(now));
        }
        (self.delivery, self.reached) = (Delivery::new(samples), position);
        Wake::Wait(now)
    }

    /// What came of a request; and the receiver's clock, if it told it.
    pub fn take_answer(&mut self, answer: &Answer, receiver_time: Option<Time>, now: Time, utc: Time) {
        self.progress.failure = match answer {
            Answer::Accepted | Answer::Refused(_) => None,
            Answer::Failed(reason) | Answer::Unavailable { reason, .. } => Some(reason.clone()),
        };
        if let Answer::Refused(reason) = answer {
            self.progress.refusal = Some(reason.clone());
        }
        if let Some(receiver) = receiver_time {
            let behind = utc - receiver;
            self.receiver_behind = Some(if behind > MIN_CLOCK_DIFFERENCE { behind } else { Span::ZERO });
        } else if self.progress.failure.is_none() {
            // One that does not tell its time.
            self.receiver_behind.get_or_insert(Span::ZERO);
        }
        if self.delivery.is_done() {
            // It was asked for its clock.
            self.next_read = self.progress.failure.is_some().then(|| now + ASK_INTERVAL);
            if self.progress.failure.is_some() {
                self.receiver_behind = None;
            }
            return;
        }
        let before = self.delivery.counts();
        let receiver_now = utc - self.receiver_behind.unwrap_or(Span::ZERO);
        self.delivery.take_answer(answer, receiver_now - self.max_age, now);
        let counts = self.delivery.counts();
        self.progress.accepted_samples += counts.accepted - before.accepted;
        self.progress.refused_samples += counts.refused - before.refused;
    }
}
