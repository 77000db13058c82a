//! What cross traffic gets between the packets of all bursts, where no burst shows it.

use super::burst::BurstSample;
use super::plan::NEGLIGIBLE_TRANSMISSION_PART;
use super::sample::{REPLICATES, STAMP_SCATTER_SECONDS, SizeSample, resample};
use crate::stats::quantile;

/// Packets that are sent in so small a part of the time that the link needs for one are queued.
const MAX_QUEUED_PART: f64 = 0.9;

/// What bursts as a whole tell of cross traffic: while packets are queued, each comes after the time that the link needs for
/// one, and for what cross traffic sent since the one before. So in the mean the steps between arrivals grow by cross
/// traffic's part of the link with the steps between sendings, whatever sizes its packets have, and packets sent in no time
/// would come at the link's own pace.
pub(super) struct CrossTraffic {
    /// Which part of the link it takes, at most; 1 where that is not known, and matters.
    pub(super) max_link_share: f64,
    /// How fast the link is, at least and at most, in bit/s; none where bursts do not tell, or there is no cross traffic.
    pub(super) link_rate_range: Option<(f64, f64)>,
}

impl CrossTraffic {
    /// From packets sent back to back, and from such sent farther apart.
    pub(super) fn from_samples(close: &[SizeSample], stretched: &[SizeSample], state: &mut u64) -> Self {
        let size = close.iter().map(|sample| sample.shape.size).max();
        let full = || close.iter().filter(|sample| Some(sample.shape.size) == size);
        let step = full().map(SizeSample::mean_step_seconds).fold(f64::INFINITY, f64::min);
        let queued = |burst: &BurstSample| burst.input_dispersion < MAX_QUEUED_PART * step * f64::from(burst.gap_count);
        let near: Vec<BurstSample> = full().flat_map(SizeSample::plausible_bursts).collect();
        let far: Vec<BurstSample> = stretched.iter().flat_map(SizeSample::plausible_bursts).filter(queued).collect();
        let Some(steps) = QueueSteps::mean_steps(&near) else {
            return CrossTraffic { max_link_share: 1.0, link_rate_range: None };
        };
        let told = QueueSteps::mean_steps(&far)
            .is_some_and(|far| far.input_gap_seconds - steps.input_gap_seconds > STAMP_SCATTER_SECONDS);
        told.then(|| Self::estimate(&near, &far, state)).flatten().unwrap_or_else(|| {
            // Twice, since the first packets tell the pace only roughly by which bursts were planned.
            let matters = steps.input_gap_seconds > 2.0 * NEGLIGIBLE_TRANSMISSION_PART * steps.output_gap_seconds;
            CrossTraffic { max_link_share: if matters { 1.0 } else { 0.0 }, link_rate_range: None }
        })
    }

    fn estimate(near: &[BurstSample], far: &[BurstSample], state: &mut u64) -> Option<Self> {
        let mut replicates = Vec::with_capacity(REPLICATES);
        for _ in 0..REPLICATES {
            let [near, far] = [near, far].map(|bursts| QueueSteps::mean_steps(&resample(bursts, state)));
            let (near, far) = (near?, far?);
            let stretch = far.input_gap_seconds - near.input_gap_seconds;
            let part = if stretch > 0.0 {
                ((far.output_gap_seconds - near.output_gap_seconds) / stretch).clamp(0.0, 1.0)
            } else {
                1.0
            };
            replicates.push((part, (near.output_gap_seconds - part * near.input_gap_seconds) / near.bits));
        }
        let (parts, paces): (Vec<f64>, Vec<f64>) = replicates.into_iter().unzip();
        let [fast, slow] = [quantile(&paces, 0.025)?, quantile(&paces, 0.975)?];
        let rate = (fast > 0.0).then_some((slow.recip(), fast.recip()))?;
        let some = quantile(&parts, 0.025)? > 0.0;
        Some(CrossTraffic { max_link_share: quantile(&parts, 0.975)?, link_rate_range: some.then_some(rate) })
    }
}

/// From one packet of a burst to the next in the mean, in seconds and bits.
struct QueueSteps {
    input_gap_seconds: f64,
    output_gap_seconds: f64,
    bits: f64,
}

impl QueueSteps {
    /// None where there are no bursts.
    fn mean_steps(bursts: &[BurstSample]) -> Option<Self> {
        let gaps: f64 = bursts.iter().map(|burst| f64::from(burst.gap_count)).sum();
        let mean = |of: fn(&BurstSample) -> f64| bursts.iter().map(of).sum::<f64>() / gaps;
        let steps = QueueSteps {
            input_gap_seconds: mean(|b| b.input_dispersion),
            output_gap_seconds: mean(BurstSample::dispersion),
            bits: mean(|b| b.bits),
        };
        (gaps > 0.0 && steps.bits > 0.0).then_some(steps)
    }
}
