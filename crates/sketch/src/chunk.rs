//! Samples as they come: appended to, three bytes each in the usual case.
//!
//! A chunk is a version, then records. Each begins with its distance in time from the one before and one bit that says
//! whether anything about it is unusual; what is usual is what the last answered one was like.

use crate::DecodeError;
use crate::buckets::BUCKETS;
use crate::sample::{BucketedDelay, Lane, LostIn, Outcome, Sample, TICK_NANOS};
use crate::varint::{put_signed, put_unsigned, take_signed, take_unsigned, unzigzag, zigzag};
use kumade_units::Time;

const VERSION: u8 = 1;

const LATE: u8 = 8;
const DISTURBED: u8 = 16;
const DUPLICATED: u8 = 32;
const FLOORS: u8 = 64;

/// What a record is told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    tick: i64,
    round_trip: bool,
    floors: [i64; 3],
    buckets: [u16; 3],
}

/// Writes a chunk.
#[derive(Debug, Clone)]
pub struct ChunkWriter {
    bytes: Vec<u8>,
    state: State,
    samples: u64,
}

/// Reads a chunk: its samples in the order in which they were written, or an error at its end.
#[derive(Debug, Clone)]
pub struct ChunkReader<'a> {
    bytes: &'a [u8],
    state: State,
    begun: bool,
}

impl Default for ChunkWriter {
    fn default() -> Self {
        ChunkWriter { bytes: vec![VERSION], state: State::default(), samples: 0 }
    }
}

impl ChunkWriter {
    /// Appends a sample.
    pub fn push(&mut self, sample: &Sample<BucketedDelay>) {
        let code = outcome_code(&sample.outcome);
        let delays = lane_delays(&sample.outcome);
        let moved = |(lane, delay): &(Lane, BucketedDelay)| delay.floor != self.state.floors[*lane as usize];
        let rebased = delays.into_iter().flatten().any(|delay| moved(&delay));
        let mut flags = code;
        flags |= if sample.late { LATE } else { 0 };
        flags |= if sample.disturbed { DISTURBED } else { 0 };
        flags |= if sample.duplicates > 0 { DUPLICATED } else { 0 };
        flags |= if rebased { FLOORS } else { 0 };
        let unusual = flags != u8::from(self.state.round_trip);
        let tick = sample.tick();
        // Times are within some centuries, so that the difference has two bits to spare.
        put_unsigned(&mut self.bytes, zigzag(tick - self.state.tick) << 1 | u64::from(unusual));
        self.state.tick = tick;
        if unusual {
            self.bytes.push(flags);
        }
        if sample.duplicates > 0 {
            self.bytes.push(sample.duplicates);
        }
        for (lane, delay) in delays.into_iter().flatten() {
            let lane = lane as usize;
            if rebased {
                put_signed(&mut self.bytes, delay.floor - self.state.floors[lane]);
                self.state.floors[lane] = delay.floor;
            }
            put_signed(&mut self.bytes, i64::from(delay.bucket) - i64::from(self.state.buckets[lane]));
            self.state.buckets[lane] = delay.bucket;
            self.state.round_trip = lane == Lane::RoundTrip as usize;
        }
        self.samples += 1;
    }

    /// All that was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }
}

impl<'a> ChunkReader<'a> {
    /// Reads what a [`ChunkWriter`] has written.
    pub fn new(bytes: &'a [u8]) -> Self {
        ChunkReader { bytes, state: State::default(), begun: false }
    }

    fn read(&mut self) -> Result<Sample<BucketedDelay>, DecodeError> {
        let head = take_unsigned(&mut self.bytes)?;
        let damaged = DecodeError::Damaged("a time beyond all times");
        let tick = self.state.tick.checked_add(unzigzag(head >> 1)).ok_or(damaged)?;
        let sent = Time::from_nanos(tick.checked_mul(TICK_NANOS).ok_or(damaged)?);
        self.state.tick = tick;
        let flags = if head & 1 == 1 { self.take_byte()? } else { u8::from(self.state.round_trip) };
        let duplicates = if flags & DUPLICATED != 0 { self.take_byte()? } else { 0 };
        let rebased = flags & FLOORS != 0;
        let outcome = match flags & 7 {
            0 => Outcome::Answered {
                up: self.take_delay(Lane::Up, rebased)?,
                down: self.take_delay(Lane::Down, rebased)?,
            },
            1 => Outcome::RoundTrip(self.take_delay(Lane::RoundTrip, rebased)?),
            code => Outcome::Lost(lost_from_code(code).ok_or(DecodeError::Damaged("an unknown outcome"))?),
        };
        let (late, disturbed) = (flags & LATE != 0, flags & DISTURBED != 0);
        Ok(Sample { sent, outcome, late, duplicates, disturbed })
    }

    fn take_byte(&mut self) -> Result<u8, DecodeError> {
        let (byte, rest) = self.bytes.split_first().ok_or(DecodeError::Truncated)?;
        self.bytes = rest;
        Ok(*byte)
    }

    fn take_delay(&mut self, lane: Lane, rebased: bool) -> Result<BucketedDelay, DecodeError> {
        let damaged = DecodeError::Damaged("a delay beyond all delays");
        let place = lane as usize;
        if rebased {
            let floor = self.state.floors[place].checked_add(take_signed(&mut self.bytes)?).ok_or(damaged)?;
            self.state.floors[place] = floor;
        }
        let bucket = i64::from(self.state.buckets[place]).checked_add(take_signed(&mut self.bytes)?).ok_or(damaged)?;
        let bucket = u16::try_from(bucket).ok().filter(|bucket| usize::from(*bucket) < BUCKETS).ok_or(damaged)?;
        self.state.buckets[place] = bucket;
        self.state.round_trip = lane == Lane::RoundTrip;
        Ok(BucketedDelay { floor: self.state.floors[place], bucket })
    }
}

impl Iterator for ChunkReader<'_> {
    type Item = Result<Sample<BucketedDelay>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.begun {
            self.begun = true;
            match self.take_byte() {
                Ok(VERSION) => {}
                Ok(other) => {
                    self.bytes = &[];
                    return Some(Err(DecodeError::UnknownVersion(other)));
                }
                Err(error) => return Some(Err(error)),
            }
        }
        if self.bytes.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.bytes = &[];
        }
        Some(read)
    }
}

/// The outcome in three bits.
pub(crate) fn outcome_code<D>(outcome: &Outcome<D>) -> u8 {
    match outcome {
        Outcome::Answered { .. } => 0,
        Outcome::RoundTrip(_) => 1,
        Outcome::Lost(LostIn::Up) => 2,
        Outcome::Lost(LostIn::Down) => 3,
        Outcome::Lost(LostIn::EitherWay) => 4,
        Outcome::Lost(LostIn::RoundTrip) => 5,
    }
}

/// Where a probe with this code was lost; none if it was not, or nothing has the code.
pub(crate) fn lost_from_code(code: u8) -> Option<LostIn> {
    Some(match code {
        2 => LostIn::Up,
        3 => LostIn::Down,
        4 => LostIn::EitherWay,
        5 => LostIn::RoundTrip,
        _ => return None,
    })
}

/// The delays of an outcome, by lane.
pub(crate) fn lane_delays(outcome: &Outcome<BucketedDelay>) -> [Option<(Lane, BucketedDelay)>; 2] {
    match *outcome {
        Outcome::Answered { up, down } => [Some((Lane::Up, up)), Some((Lane::Down, down))],
        Outcome::RoundTrip(delay) => [Some((Lane::RoundTrip, delay)), None],
        Outcome::Lost(_) => [None, None],
    }
}
