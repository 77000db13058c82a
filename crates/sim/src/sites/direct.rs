use super::packet::{OuterPacket, SitePacket};
use kumade_multipath::PathId;
use kumade_units::{ConfigError, Time};

/// Divides packets in a ratio, as rules of the kernel do (`numgen inc`): so many in a row to the first path, then to the
/// next. Nothing is added to them.
#[derive(Debug)]
pub(super) struct DirectGateway {
    /// The path of each packet of a round.
    round: Vec<PathId>,
    next: usize,
}

/// A round has no more packets, so that its paths can be listed.
const MAX_ROUND_PACKETS: u64 = 1 << 16;

impl DirectGateway {
    pub(super) fn new(shares: &[u32], paths: usize) -> Result<Self, ConfigError> {
        let error = ConfigError::for_part("direct plane");
        let text = || shares.iter().map(u32::to_string).collect::<Vec<_>>().join(":");
        let sum: u64 = shares.iter().map(|share| u64::from(*share)).sum();
        if shares.len() != paths || paths > PathId::MAX_PATHS {
            return Err(error("ratio", text(), "of another number of paths", "give one share for each path"));
        }
        if !(1..=MAX_ROUND_PACKETS).contains(&sum) {
            return Err(error("ratio", text(), "out of range", "give shares whose sum is 1 to 65536"));
        }
        let of_path = |(path, share): (PathId, &u32)| std::iter::repeat_n(path, *share as usize);
        Ok(DirectGateway { round: PathId::all().zip(shares).flat_map(of_path).collect(), next: 0 })
    }

    pub(super) fn send(&mut self, packet: SitePacket, sent: Time) -> (PathId, OuterPacket) {
        let path = self.round[self.next];
        self.next = (self.next + 1) % self.round.len();
        (path, OuterPacket::unencrypted(packet, sent))
    }
}
