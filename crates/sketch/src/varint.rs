//! Integers in as few bytes as they need: seven bits a byte, least significant first.

use crate::DecodeError;

/// Appends `value`.
pub(crate) fn put_unsigned(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends `value`, whose sign goes to the lowest bit.
pub(crate) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put_unsigned(bytes, zigzag(value));
}

/// Takes an integer from the front.
pub(crate) fn take_unsigned(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(DecodeError::Truncated)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DecodeError::Damaged("an integer of more than 64 bits"))
}

/// Takes an integer with a sign from the front.
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Result<i64, DecodeError> {
    take_unsigned(bytes).map(unzigzag)
}

/// Small magnitudes become small: 0, −1, 1, −2 → 0, 1, 2, 3.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
