//! What gets between the packets of all bursts, and so can't be seen in any.

use super::burst::Burst;
use super::filter::REPLICATES;
use super::plan::NEGLIGIBLE;
use super::sample::{STAMPS, Sample, resampled};
use crate::stats::quantile;

/// What bursts as a whole tell of others: the longer a burst takes to be sent, the more of their packets get into it, in the
/// mean, whatever their sizes.
pub(super) struct Others {
    /// Which part of the link they take, at most.
    pub(super) part: f64,
    /// How fast the link would be without them, at least and at most, in bit/s.
    pub(super) rate: Option<(f64, f64)>,
}

impl Others {
    /// From bursts of packets sent back to back, and of such sent farther apart.
    pub(super) fn of(samples: &[Sample], spread: &[Sample], state: &mut u64) -> Self {
        let size = samples.iter().map(|sample| sample.shape.size).max().unwrap_or(0);
        let full = samples.iter().filter(|sample| sample.shape.size == size);
        let close: Vec<Burst> = full.flat_map(Sample::plausible).collect();
        let apart: Vec<Burst> = spread.iter().flat_map(Sample::plausible).collect();
        let mean = Steps::mean(&close);
        if apart.is_empty() || Steps::mean(&apart).sending - mean.sending < STAMPS {
            let negligible = mean.sending < 2.0 * NEGLIGIBLE * mean.arriving;
            return Others { part: if negligible { 0.0 } else { 1.0 }, rate: None };
        }
        let (parts, rates): (Vec<f64>, Vec<f64>) = (0..REPLICATES)
            .map(|_| {
                let [close, apart] = [&close, &apart].map(|bursts| Steps::mean(&resampled(bursts, state)));
                let part = ((apart.arriving - close.arriving) / (apart.sending - close.sending)).clamp(0.0, 1.0);
                (part, f64::from(size) * 8.0 / (close.arriving - part * close.sending))
            })
            .unzip();
        let at = |values: &[f64], part| quantile(values, part).unwrap_or(0.0);
        Others { part: at(&parts, 0.975), rate: Some((at(&rates, 0.025), at(&rates, 0.975))) }
    }
}

/// The mean times between packets of bursts, in seconds.
struct Steps {
    sending: f64,
    arriving: f64,
}

impl Steps {
    fn mean(bursts: &[Burst]) -> Self {
        let add = |sum: (f64, f64, f64), burst: &Burst| {
            (sum.0 + burst.sending, sum.1 + burst.dispersion(), sum.2 + f64::from(burst.gaps))
        };
        let (sending, arriving, gaps) = bursts.iter().fold((0.0, 0.0, 0.0), add);
        Steps { sending: sending / gaps, arriving: arriving / gaps }
    }
}
