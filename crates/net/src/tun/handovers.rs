//! When a host handed its packets to a TUN device, by the kernel's stamps.

use crate::capture::Capture;
use crate::clock;
use crate::setup::SetupError;
use kumade_units::{Span, Time};
use std::collections::VecDeque;
use std::fmt;

/// When packets were handed to a TUN device. Reading them tells only when the reading thread was scheduled, and so much later.
pub struct Handovers {
    capture: Capture,
    /// Packets that are not read yet, oldest first.
    seen: VecDeque<(Time, Beginning)>,
}

/// Tells packets apart: their first bytes, with zeroes behind shorter ones.
type Beginning = [u8; 64];

impl Handovers {
    /// More than the device keeps.
    const MAX_PENDING: usize = 16_384;
    /// A packet is in the device this soon after the capture has shown it, or never.
    const PATIENCE: Span = Span::from_millis(1);

    /// To the device of that name in the calling thread's namespace, from now on.
    ///
    /// # Errors
    /// No such device, not allowed, or no memory for the ring.
    pub fn to(name: &str) -> Result<Self, SetupError> {
        Ok(Handovers { capture: Capture::outgoing(name)?, seen: VecDeque::new() })
    }

    /// When this packet was handed over (CLOCK_REALTIME): as it was just read, and before anything in it is changed. None where nothing
    /// is known of it, as when the device was moved to another namespace.
    pub fn stamp_of(&mut self, packet: &[u8]) -> Option<Time> {
        self.look();
        let wanted = beginning(packet);
        while let Some((stamp, beginning)) = self.seen.pop_front() {
            if beginning == wanted {
                return Some(stamp);
            }
        }
        None
    }

    /// The device is empty: what was shown before now and is not read has been lost.
    pub fn drained(&mut self) {
        self.look();
        let lost = clock::realtime() - Self::PATIENCE;
        while self.seen.front().is_some_and(|(stamp, _)| *stamp < lost) {
            self.seen.pop_front();
        }
    }

    /// Whether a packet waits, or is about to. Reads one word of memory.
    pub fn is_ready(&self) -> bool {
        self.capture.is_ready()
    }

    fn look(&mut self) {
        while let Some(seen) = self.capture.next(|stamp, packet| (stamp, beginning(packet))) {
            if self.seen.len() == Self::MAX_PENDING {
                self.seen.pop_front();
            }
            self.seen.push_back(seen);
        }
    }
}

fn beginning(packet: &[u8]) -> Beginning {
    let mut beginning = [0; 64];
    let length = packet.len().min(64);
    beginning[..length].copy_from_slice(&packet[..length]);
    beginning
}

impl fmt::Debug for Handovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handovers").field("seen", &self.seen.len()).finish_non_exhaustive()
    }
}
