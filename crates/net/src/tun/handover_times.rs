//! When a host handed its packets to a TUN device, by the kernel's stamps.

use crate::capture::Capture;
use crate::clock;
use crate::setup::SetupError;
use kumade_units::{Span, Time};
use std::collections::VecDeque;
use std::fmt;

/// When packets were handed to a TUN device. Reading them tells only when the reading thread was scheduled, and so much later.
pub struct HandoverTimes {
    capture: Capture,
    /// Packets that are not read yet, oldest first.
    pending: VecDeque<(Time, PacketPrefix)>,
}

/// Tells packets apart: their first bytes, with zeroes behind shorter ones.
type PacketPrefix = [u8; 64];

impl HandoverTimes {
    /// More than the device keeps.
    const MAX_PENDING_PACKETS: usize = 16_384;
    /// A packet is in the device this soon after the capture has shown it, or never.
    const MAX_READ_DELAY: Span = Span::from_millis(1);

    /// To the device of that name in the calling thread's namespace, from now on.
    ///
    /// # Errors
    /// No such device, not allowed, or no memory for the ring.
    pub fn for_device(name: &str) -> Result<Self, SetupError> {
        Ok(HandoverTimes { capture: Capture::outgoing(name)?, pending: VecDeque::new() })
    }

    /// When this packet was handed over (CLOCK_REALTIME): as it was just read, and before anything in it is changed. None where nothing
    /// is known of it, as when the device was moved to another namespace.
    pub fn stamp_of(&mut self, packet: &[u8]) -> Option<Time> {
        self.read_capture();
        let wanted = packet_prefix(packet);
        while let Some((stamp, beginning)) = self.pending.pop_front() {
            if beginning == wanted {
                return Some(stamp);
            }
        }
        None
    }

    /// The device is empty: what was shown before now and is not read has been lost.
    pub fn discard_lost(&mut self) {
        self.read_capture();
        let lost = clock::realtime() - Self::MAX_READ_DELAY;
        while self.pending.front().is_some_and(|(stamp, _)| *stamp < lost) {
            self.pending.pop_front();
        }
    }

    /// Whether a packet waits, or is about to. Reads one word of memory.
    pub fn is_ready(&self) -> bool {
        self.capture.is_ready()
    }

    fn read_capture(&mut self) {
        while let Some(seen) = self.capture.next(|stamp, packet| (stamp, packet_prefix(packet))) {
            if self.pending.len() == Self::MAX_PENDING_PACKETS {
                self.pending.pop_front();
            }
            self.pending.push_back(seen);
        }
    }
}

fn packet_prefix(packet: &[u8]) -> PacketPrefix {
    let mut beginning = [0; 64];
    let length = packet.len().min(64);
    beginning[..length].copy_from_slice(&packet[..length]);
    beginning
}

impl fmt::Debug for HandoverTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handovers").field("seen", &self.pending.len()).finish_non_exhaustive()
    }
}
