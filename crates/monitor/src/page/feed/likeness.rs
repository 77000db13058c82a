//! Whether what a page shows is still right.

use crate::status::{
    AgentStatus, LaneDelay, LeaderStatus, LinkStatus, LossStatus, MonitorStatus, PairStatus, RemoteWriteStatus,
};

/// A figure that differs by less stays: plots and tables of the archive have the exact ones.
const MAX_RELATIVE_CHANGE: f64 = 0.05;
/// Of delays, besides.
const MAX_DELAY_CHANGE_SECONDS: f64 = 20e-6;
/// Of ratios, besides.
const MAX_RATIO_CHANGE: f64 = 0.001;
/// Of bytes, besides.
const MAX_BYTES_CHANGE: f64 = 1e6;
/// Of how long the one that leads has been silent: less is usual.
const MAX_SILENCE_CHANGE_SECONDS: f64 = 5.0;

pub(super) fn is_like_pair(told: &PairStatus, now: &PairStatus) -> bool {
    let PairStatus { delays, loss, loss_up, loss_down, .. } = now;
    let losses = [(told.loss, loss), (told.loss_up, loss_up), (told.loss_down, loss_down)];
    let is_all_else_same = {
        let PairStatus { id, name, ends, host, address, probe, interval_seconds, is_measured, state, run, .. } = now;
        told.id == *id
            && told.name == *name
            && told.ends == *ends
            && told.host == *host
            && told.address == *address
            && told.probe == *probe
            && told.interval_seconds == *interval_seconds
            && told.is_measured == *is_measured
            && told.state == *state
            && told.run == *run
    };
    is_all_else_same
        && told.delays.len() == delays.len()
        && told.delays.iter().zip(delays).all(|(told, now)| is_like_delay(told, now))
        && losses.into_iter().all(|(told, now)| is_like_loss(told.as_ref(), now.as_ref()))
}

/// By what pages show: the median, and what 95 % are below.
fn is_like_delay(told: &LaneDelay, now: &LaneDelay) -> bool {
    let is_close = |told, now| is_close(told, now, MAX_DELAY_CHANGE_SECONDS);
    told.lane == now.lane
        && is_close(told.median_seconds, now.median_seconds)
        && is_close(told.quantile_95_seconds, now.quantile_95_seconds)
}

/// Whether anything was lost is told in any case.
fn is_like_loss(told: Option<&LossStatus>, now: Option<&LossStatus>) -> bool {
    let is_close = |told, now| is_close(told, now, MAX_RATIO_CHANGE);
    match (told, now) {
        (Some(told), Some(now)) => {
            (told.ratio > 0.0) == (now.ratio > 0.0)
                && is_close(told.ratio, now.ratio)
                && is_close(told.low, now.low)
                && is_close(told.high, now.high)
        }
        (told, now) => told.is_none() && now.is_none(),
    }
}

pub(super) fn is_like_agent(told: &AgentStatus, now: &AgentStatus) -> bool {
    is_close_number(told.used_bytes, now.used_bytes)
        && *told == AgentStatus { used_bytes: told.used_bytes, ..now.clone() }
}

pub(super) fn is_like_link(told: &LinkStatus, now: &LinkStatus) -> bool {
    is_close_number(told.used_bytes, now.used_bytes)
        && *told == LinkStatus { used_bytes: told.used_bytes, ..now.clone() }
}

/// Of statuses without their lists. Pages show neither their time, which is told with each change, nor how many figures were sent.
pub(super) fn is_like_rest(told: &MonitorStatus, now: &MonitorStatus) -> bool {
    let silence = |status: &MonitorStatus| status.leader.as_ref().map_or(0.0, |leader| leader.silent_seconds);
    let comparable = |status: &MonitorStatus| MonitorStatus {
        time_seconds: 0.0,
        leader: status.leader.clone().map(|leader| LeaderStatus { silent_seconds: 0.0, ..leader }),
        remote_write: status.remote_write.clone().map(|sent| RemoteWriteStatus { accepted: 0, refused: 0, ..sent }),
        ..status.clone()
    };
    (silence(told) - silence(now)).abs() <= MAX_SILENCE_CHANGE_SECONDS && comparable(told) == comparable(now)
}

fn is_close_number(told: u64, now: u64) -> bool {
    is_close(told as f64, now as f64, MAX_BYTES_CHANGE)
}

fn is_close(told: f64, now: f64, floor: f64) -> bool {
    (told - now).abs() <= told.abs().max(now.abs()) * MAX_RELATIVE_CHANGE + floor
}
