//! An adaptive binary range coder, as in LZMA: each bit costs what its probability says, which is learnt while coding.
//!
//! Summaries of minutes are made of counts that are mostly 0, 1 or 2: whole bits for each would double the archive.

use crate::DecodeError;
use crate::varint::{unzigzag, zigzag};

/// Below this the range is widened by a byte.
const MIN_RANGE: u32 = 1 << 24;
/// Probabilities are in units of 2^-15.
const PROBABILITY_BITS: u32 = 15;
/// Not nearer to certainty than this.
const MIN_PROBABILITY: u16 = 48;
/// Written last: what is read otherwise is damaged.
const CHECK: u64 = 0xa5;
const CHECK_BITS: u32 = 8;

/// The probability that a bit is zero, and how much it has learnt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BitModel {
    zero: u16,
    seen: u8,
}

impl Default for BitModel {
    fn default() -> Self {
        BitModel { zero: 1 << (PROBABILITY_BITS - 1), seen: 0 }
    }
}

impl BitModel {
    fn learn(&mut self, bit: bool) {
        /// By how many bits to divide the difference, after so many bits: first a mean, then a moving one.
        const SHIFTS: [u8; 24] = [1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5];
        let shift = SHIFTS.get(usize::from(self.seen)).copied().unwrap_or(if self.seen < 48 { 5 } else { 6 });
        self.seen = self.seen.saturating_add(1);
        if bit {
            self.zero -= (self.zero - MIN_PROBABILITY) >> shift;
        } else {
            self.zero += ((1 << PROBABILITY_BITS) - MIN_PROBABILITY - self.zero) >> shift;
        }
    }
}

/// What codes and decodes alike: each format is written once, for both directions.
pub(crate) trait Coder {
    /// Writes `bit`, or returns the one that was written.
    fn bit(&mut self, model: &mut BitModel, bit: bool) -> bool;

    /// The same for the low `count` bits of a value, all equally probable.
    fn raw(&mut self, count: u32, value: u64) -> u64;

    /// A value of `BITS` bits, each bit given those before it.
    fn tree(&mut self, models: &mut [BitModel], bits: u32, value: u16) -> u16 {
        let mut node = 1usize;
        for place in (0..bits).rev() {
            let bit = self.bit(&mut models[node], value >> place & 1 == 1);
            node = node << 1 | usize::from(bit);
        }
        (node - (1 << bits)) as u16
    }

    /// A number below 2^47: its length, then its bits, of which the first two after the leading one are learnt.
    fn number(&mut self, model: &mut NumberModel, value: u64) -> u64 {
        let length = u64::BITS - value.min(MAX_NUMBER).leading_zeros();
        let mut coded = 0;
        while coded < MAX_LENGTH && self.bit(&mut model.longer[coded as usize], coded < length) {
            coded += 1;
        }
        if coded < 2 {
            return u64::from(coded);
        }
        let mut read = 1u64;
        let mut rest = coded - 1;
        let learnt = &mut model.next[coded as usize];
        for _ in 0..rest.min(2) {
            rest -= 1;
            // 1 before the first, then 2 or 3.
            let bit = self.bit(&mut learnt[read as usize - 1], value >> rest & 1 == 1);
            read = read << 1 | u64::from(bit);
        }
        let low = self.raw(rest, value & ((1 << rest) - 1));
        read << rest | low
    }

    /// The same with a sign.
    fn signed_number(&mut self, model: &mut NumberModel, value: i64) -> i64 {
        unzigzag(self.number(model, zigzag(value)))
    }
}

/// Longest number.
const MAX_LENGTH: u32 = 47;
/// Greater ones are written as this.
const MAX_NUMBER: u64 = (1 << MAX_LENGTH) - 1;

/// What has been learnt of numbers of one kind.
#[derive(Debug, Clone)]
pub(crate) struct NumberModel {
    longer: [BitModel; MAX_LENGTH as usize],
    next: [[BitModel; 3]; MAX_LENGTH as usize + 1],
}

impl Default for NumberModel {
    fn default() -> Self {
        NumberModel {
            longer: [BitModel::default(); MAX_LENGTH as usize],
            next: [[BitModel::default(); 3]; MAX_LENGTH as usize + 1],
        }
    }
}

/// Writes.
#[derive(Debug)]
pub(crate) struct RangeEncoder {
    bytes: Vec<u8>,
    low: u64,
    range: u32,
    /// The last byte that a carry could still change, and how many of 0xff follow it; none before the first.
    pending: Option<u8>,
    pending_ones: u64,
}

impl RangeEncoder {
    /// Writes behind what is there.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        RangeEncoder { bytes, low: 0, range: u32::MAX, pending: None, pending_ones: 0 }
    }

    /// All bytes. Zeros at the end are left out: what is read behind the end is zero.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.raw(CHECK_BITS, CHECK);
        let begin = self.bytes.len().min(1);
        // Of the values that are left, the one with most zeros at its end.
        self.low = (self.low + u64::from(MIN_RANGE - 1)) & !u64::from(MIN_RANGE - 1);
        (0..5).for_each(|_| self.shift());
        while self.bytes.len() > begin && self.bytes.last() == Some(&0) {
            self.bytes.pop();
        }
        self.bytes
    }

    fn narrow(&mut self, from: u32, length: u32) {
        self.low += u64::from(from);
        self.range = length;
        while self.range < MIN_RANGE {
            self.range <<= 8;
            self.shift();
        }
    }

    fn shift(&mut self) {
        let carry = (self.low >> 32) as u8;
        if self.low < 0xff00_0000 || carry == 1 {
            if let Some(byte) = self.pending {
                self.bytes.push(byte.wrapping_add(carry));
            }
            (0..self.pending_ones).for_each(|_| self.bytes.push(0xffu8.wrapping_add(carry)));
            self.pending_ones = 0;
            self.pending = Some((self.low >> 24) as u8);
        } else {
            self.pending_ones += 1;
        }
        self.low = (self.low & 0x00ff_ffff) << 8;
    }
}

impl Coder for RangeEncoder {
    fn bit(&mut self, model: &mut BitModel, bit: bool) -> bool {
        let bound = (self.range >> PROBABILITY_BITS) * u32::from(model.zero);
        if bit {
            self.narrow(bound, self.range - bound);
        } else {
            self.narrow(0, bound);
        }
        model.learn(bit);
        bit
    }

    fn raw(&mut self, count: u32, value: u64) -> u64 {
        for place in (0..count).rev() {
            let half = self.range >> 1;
            if value >> place & 1 == 1 {
                self.narrow(half, half);
            } else {
                self.narrow(0, half);
            }
        }
        value
    }
}

/// Reads.
#[derive(Debug)]
pub(crate) struct RangeDecoder<'a> {
    bytes: &'a [u8],
    code: u32,
    range: u32,
}

impl<'a> RangeDecoder<'a> {
    /// Reads what an encoder has written behind a header.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut decoder = RangeDecoder { bytes, code: 0, range: u32::MAX };
        (0..4).for_each(|_| decoder.read_byte());
        decoder
    }

    /// Checks that what was read is what was written.
    pub(crate) fn finish(&mut self) -> Result<(), DecodeError> {
        let whole = self.raw(CHECK_BITS, 0) == CHECK && self.bytes.is_empty();
        whole.then_some(()).ok_or(DecodeError::Damaged("it does not end where its content does"))
    }

    fn read_byte(&mut self) {
        let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        self.code = self.code << 8 | u32::from(*byte);
    }

    fn narrow(&mut self, from: u32, length: u32) {
        self.code = self.code.wrapping_sub(from);
        self.range = length;
        while self.range < MIN_RANGE {
            self.range <<= 8;
            self.read_byte();
        }
    }
}

impl Coder for RangeDecoder<'_> {
    fn bit(&mut self, model: &mut BitModel, _: bool) -> bool {
        let bound = (self.range >> PROBABILITY_BITS) * u32::from(model.zero);
        let bit = self.code >= bound;
        if bit {
            self.narrow(bound, self.range - bound);
        } else {
            self.narrow(0, bound);
        }
        model.learn(bit);
        bit
    }

    fn raw(&mut self, count: u32, _: u64) -> u64 {
        let mut value = 0;
        for _ in 0..count {
            let half = self.range >> 1;
            let bit = self.code >= half;
            if bit {
                self.narrow(half, half);
            } else {
                self.narrow(0, half);
            }
            value = value << 1 | u64::from(bit);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(coder: &mut impl Coder, values: &[(u64, u16, u64)]) -> Vec<(u64, u16, u64)> {
        let (mut number, mut tree) = (NumberModel::default(), vec![BitModel::default(); 512]);
        let each = values
            .iter()
            .map(|&(n, t, r)| (coder.number(&mut number, n), coder.tree(&mut tree, 9, t), coder.raw(3, r)));
        each.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_is_read(
            values in prop::collection::vec(((0u32..47).prop_flat_map(|bits| 0..1u64 << bits), 0u16..512, 0u64..8), 0..300),
            header in prop::collection::vec(any::<u8>(), 1..=1),
        ) {
            let mut encoder = RangeEncoder::new(header);
            code(&mut encoder, &values);
            let bytes = encoder.finish();
            let mut decoder = RangeDecoder::new(&bytes[1..]);
            prop_assert_eq!(code(&mut decoder, &values.iter().map(|_| (0, 0, 0)).collect::<Vec<_>>()), values);
            prop_assert_eq!(decoder.finish(), Ok(()));
        }
    }

    #[test]
    fn what_is_certain_costs_next_to_nothing() {
        let mut encoder = RangeEncoder::new(vec![1]);
        let mut model = BitModel::default();
        (0..100_000).for_each(|_| _ = encoder.bit(&mut model, true));
        let bytes = encoder.finish();
        assert!(bytes.len() < 100, "{} bytes", bytes.len());
    }
}
