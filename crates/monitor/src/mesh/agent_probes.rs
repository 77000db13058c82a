//! Light probes as an agent is told of them, and tells of them.

use super::frame::{AssignedPeer, WireLoss, WireResult};
use crate::light::{ProbeKind, ProbeReply, ProbeResult, ProbedTarget, ReplyLimits};
use kumade_client::PresharedKey;
use kumade_sketch::LostIn;
use kumade_units::Span;
use kumade_wire::stamp::StampKey;

/// As the coordinator's file has it.
const MIN_PROBE_INTERVAL: Span = Span::from_millis(10);

/// As it is delivered; `shift` is what the clock of batches is ahead of the monotonic one.
pub(super) fn wire_result(result: &ProbeResult, shift: Span) -> WireResult {
    let sent = result.sent + shift;
    match result.reply {
        Ok(ProbeReply { round_trip, one_way, is_late }) => {
            let one_way = one_way.map(|delays| (delays.up, delays.down, delays.error));
            WireResult(sent, Some(round_trip), one_way, is_late, WireLoss::Unknown)
        }
        Err(lost_in) => {
            let lost_in = match lost_in {
                LostIn::Up => WireLoss::Up,
                LostIn::Down => WireLoss::Down,
                LostIn::EitherWay => WireLoss::Unknown,
                LostIn::RoundTrip => WireLoss::RoundTrip,
            };
            WireResult(sent, None, None, false, lost_in)
        }
    }
}

/// As it is probed.
///
/// # Errors
/// The key is none.
pub(super) fn probed_target(peer: &AssignedPeer) -> Result<ProbedTarget, String> {
    let key = PresharedKey::parse(&peer.stamp_key).map_err(|error| error.to_string())?;
    Ok(ProbedTarget {
        host: peer.host.clone(),
        port: peer.stamp_port,
        family: peer.path.family(),
        kind: ProbeKind::Stamp(Some(StampKey::new(&key))),
        // A coordinator that is wrong does not make it a flood.
        interval: peer.interval.max(MIN_PROBE_INTERVAL),
        limits: ReplyLimits { late_after: peer.late_after, lost_after: peer.lost_after },
    })
}
