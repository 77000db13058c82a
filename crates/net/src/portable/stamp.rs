//! No stamps of the kernel: programs read a clock.

pub use crate::system_facts::{StampPlace, StampSource, StampedRead, TransmitStamp};

use super::unsupported;
use rustix::fd::AsFd;
use std::io::{self, Read};
use std::net::TcpStream;

/// Packets have the time at which they are read: they are not to wait.
pub const IS_TIME_OF_READING: bool = true;

const STAMPS: &str = "when packets pass its devices";

/// Has no packets stamped.
///
/// # Errors
/// Always.
pub fn enable_receive(_socket: &impl AsFd) -> io::Result<()> {
    unsupported(STAMPS)
}

/// Has no packets stamped.
///
/// # Errors
/// Always.
pub fn enable_transmit(_socket: &impl AsFd, _is_tcp: bool) -> io::Result<u32> {
    unsupported(STAMPS)
}

/// Has no packets stamped.
///
/// # Errors
/// Where they are to be.
pub fn set_queue_stamps(_socket: &impl AsFd, _is_tcp: bool, are_wanted: bool) -> io::Result<()> {
    if are_wanted { unsupported(STAMPS) } else { Ok(()) }
}

/// Receives, without a stamp; without waiting where the connection does not block.
///
/// # Errors
/// What the connection reports.
pub fn receive(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<StampedRead> {
    Ok(StampedRead { len: stream.read(buffer)?, stamp: None })
}

/// None.
///
/// # Errors
/// None.
pub fn next_transmit_stamp(_socket: &impl AsFd) -> io::Result<Option<TransmitStamp>> {
    Ok(None)
}
