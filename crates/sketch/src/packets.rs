//! Each packet of an hour, for the time that single packets are kept.

use crate::DecodeError;
use crate::buckets::BUCKETS;
use crate::chunk::{lost_from_code, outcome_code};
use crate::range_coder::{BitModel, Coder, NumberModel, RangeDecoder, RangeEncoder};
use crate::sample::{BucketedDelay, Lane, Outcome, Sample, TICK_NANOS};
use kumade_units::Time;

const VERSION: u8 = 1;

/// A bucket's number is this long.
const BUCKET_BITS: u32 = BUCKETS.ilog2();
/// Outcome (three bits), late, disturbed, whether it has duplicates, whether its floors are others than before.
const FLAG_BITS: u32 = 7;
const LATE: u16 = 1 << 3;
const DISTURBED: u16 = 1 << 4;
const DUPLICATED: u16 = 1 << 5;
const REBASED: u16 = 1 << 6;

/// Times are at most this many ticks from the first one of 1970: the year 2242.
const MAX_TICK: i64 = 1 << 37;

/// A sample costs about this part of a byte, however well it was foreseen: more samples than fit are damage.
const MAX_SAMPLES_PER_BYTE: u64 = 128;

/// Packs samples; sort them by time before, which costs less. An empty list gives a block that reads as empty.
pub fn encode_packets(samples: &[Sample<BucketedDelay>]) -> Vec<u8> {
    let mut encoder = RangeEncoder::new(vec![VERSION]);
    let mut codec = Codec::default();
    encoder.number(&mut codec.count, samples.len() as u64);
    for sample in samples {
        // What is written is right whatever comes back.
        _ = codec.code(&mut encoder, sample);
    }
    encoder.finish()
}

/// Reads what [`encode_packets`] has written: the samples in their order, or an error at its end.
#[derive(Debug)]
pub struct PacketReader<'a> {
    decoder: RangeDecoder<'a>,
    codec: Codec,
    left: u64,
}

impl<'a> PacketReader<'a> {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// The data is of an unknown version, or claims more samples than it can hold.
    pub fn new(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (&version, content) = bytes.split_first().ok_or(DecodeError::Truncated)?;
        if version != VERSION {
            return Err(DecodeError::UnknownVersion(version));
        }
        let (mut decoder, mut codec) = (RangeDecoder::new(content), Codec::default());
        let left = decoder.number(&mut codec.count, 0);
        if left > MAX_SAMPLES_PER_BYTE * (content.len() as u64 + 8) {
            return Err(DecodeError::Damaged("more samples than bytes for them"));
        }
        let mut reader = PacketReader { decoder, codec, left };
        if left == 0 {
            reader.decoder.finish()?;
        }
        Ok(reader)
    }
}

impl Iterator for PacketReader<'_> {
    type Item = Result<Sample<BucketedDelay>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let nothing = Sample::new(Time::ZERO, Outcome::Lost(crate::LostIn::Up));
        let mut read = self.codec.code(&mut self.decoder, &nothing);
        if read.is_ok() && self.left == 0 {
            read = self.decoder.finish().and(read);
        }
        if read.is_err() {
            self.left = 0;
        }
        Some(read)
    }
}

#[derive(Debug)]
struct Codec {
    count: NumberModel,
    time: NumberModel,
    flags: Vec<BitModel>,
    duplicates: NumberModel,
    floor: NumberModel,
    buckets: [Vec<BitModel>; 3],
    tick: i64,
    floors: [i64; 3],
}

impl Default for Codec {
    fn default() -> Self {
        let tree = |bits: u32| vec![BitModel::default(); 1 << bits];
        Codec {
            count: NumberModel::default(),
            time: NumberModel::default(),
            flags: tree(FLAG_BITS),
            duplicates: NumberModel::default(),
            floor: NumberModel::default(),
            buckets: [tree(BUCKET_BITS), tree(BUCKET_BITS), tree(BUCKET_BITS)],
            tick: 0,
            floors: [0; 3],
        }
    }
}

impl Codec {
    /// Writes a sample, or reads one.
    fn code(
        &mut self,
        coder: &mut impl Coder,
        sample: &Sample<BucketedDelay>,
    ) -> Result<Sample<BucketedDelay>, DecodeError> {
        let tick = sample.tick().clamp(-MAX_TICK, MAX_TICK);
        self.tick += coder.signed_number(&mut self.time, tick - self.tick);
        if self.tick.abs() > MAX_TICK {
            return Err(DecodeError::Damaged("a time beyond all times"));
        }
        let flags = self.flags_of_sample(sample);
        let flags = coder.tree(&mut self.flags, FLAG_BITS, flags);
        let has = |flag| flags & flag != 0;
        let mut duplicates = 0;
        if has(DUPLICATED) {
            let read = coder.number(&mut self.duplicates, u64::from(sample.duplicates));
            duplicates = u8::try_from(read).map_err(|_| DecodeError::Damaged("too many duplicates"))?;
        }
        let (rebased, nothing) = (has(REBASED), BucketedDelay { floor: 0, bucket: 0 });
        let outcome = match flags & 7 {
            0 => {
                let (up, down) = match sample.outcome {
                    Outcome::Answered { up, down } => (up, down),
                    _ => (nothing, nothing),
                };
                let up = self.code_delay(coder, Lane::Up, up, rebased)?;
                Outcome::Answered { up, down: self.code_delay(coder, Lane::Down, down, rebased)? }
            }
            1 => {
                let delay = if let Outcome::RoundTrip(delay) = sample.outcome { delay } else { nothing };
                Outcome::RoundTrip(self.code_delay(coder, Lane::RoundTrip, delay, rebased)?)
            }
            code => Outcome::Lost(lost_from_code(code as u8).ok_or(DecodeError::Damaged("an unknown outcome"))?),
        };
        let sent = Time::from_nanos(self.tick * TICK_NANOS);
        Ok(Sample { sent, outcome, late: has(LATE), duplicates, disturbed: has(DISTURBED) })
    }

    fn flags_of_sample(&self, sample: &Sample<BucketedDelay>) -> u16 {
        let moved = |lane: Lane, delay: BucketedDelay| delay.floor != self.floors[lane as usize];
        let rebased = match sample.outcome {
            Outcome::Answered { up, down } => moved(Lane::Up, up) || moved(Lane::Down, down),
            Outcome::RoundTrip(delay) => moved(Lane::RoundTrip, delay),
            Outcome::Lost(_) => false,
        };
        let flag = |set, flag| if set { flag } else { 0 };
        u16::from(outcome_code(&sample.outcome))
            | flag(sample.late, LATE)
            | flag(sample.disturbed, DISTURBED)
            | flag(sample.duplicates > 0, DUPLICATED)
            | flag(rebased, REBASED)
    }

    fn code_delay(
        &mut self,
        coder: &mut impl Coder,
        lane: Lane,
        delay: BucketedDelay,
        rebased: bool,
    ) -> Result<BucketedDelay, DecodeError> {
        let place = lane as usize;
        if rebased {
            let difference = coder.signed_number(&mut self.floor, delay.floor.wrapping_sub(self.floors[place]));
            let floor = self.floors[place].checked_add(difference);
            self.floors[place] = floor.ok_or(DecodeError::Damaged("a floor beyond all floors"))?;
        }
        let bucket = coder.tree(&mut self.buckets[place], BUCKET_BITS, delay.bucket);
        Ok(BucketedDelay { floor: self.floors[place], bucket })
    }
}
