//! The posterior: the mass of each model, and of what is available.

use crate::fit::fit_probability;
use crate::grid::{GridPoint, Integral, integrate};
use crate::model::{PathModel, Tells};
use crate::models::{LINE_VARIANCE_FACTOR, MODELS};
use crate::noise::ln_density;
use crate::observations::{Fact, Observation, Observations};
use crate::quantiles::{ModelMass, Quantiles};
use crate::verdict::{Refusal, Verdict};

/// What trains have shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// All models, the most probable one first.
    pub models: Vec<ModelMass>,
    /// What is available over all of them, averaged over the window, in bit/s.
    pub quantiles: Quantiles,
    /// What one flow can have, in bit/s, if flows have queues of their own.
    pub share: Option<Quantiles>,
    /// The posterior predictive probability of trains that fit the leading model no better than these.
    pub fit_probability: f64,
    /// What tells the leading model from the next one, and the logarithm of the ratio of likelihoods that it contributes.
    pub decided_by: Option<(Fact, f64)>,
    /// Trains of one rate, and how many independent ones they are worth.
    pub trains: usize,
    /// See `trains`.
    pub effective_trains: f64,
    /// The time that the values speak of, in seconds: from the first train's start to the last one's end.
    pub window_seconds: f64,
    /// The part of it that trains watched.
    pub watched_fraction: f64,
    /// What that comes to.
    pub verdict: Verdict,
}

/// A model with its integral.
struct Weighed {
    model: &'static dyn PathModel,
    integral: Integral,
    /// What is available, with weights that add up to one.
    values: Vec<(f64, f64)>,
    share: Vec<(f64, f64)>,
    tells_value: bool,
}

/// Where only a bound is known, available bandwidth lies anywhere below: in so many places.
const PLACES_BELOW_BOUND: usize = 12;

fn spread_below(bound: f64, weight: f64) -> impl Iterator<Item = (f64, f64)> {
    let places = PLACES_BELOW_BOUND as f64;
    (1..=PLACES_BELOW_BOUND).map(move |i| (bound * i as f64 / places, weight / places))
}

impl Evidence {
    /// Whether the trains are such as the leading model expects.
    pub fn has_fitting_model(&self) -> bool {
        !matches!(self.verdict, Verdict::None { refusal: Refusal::NoModelFits, .. })
    }

    /// The posterior over all models.
    pub(crate) fn from_observations(seen: &Observations) -> Self {
        Self::with_models(seen, MODELS)
    }

    pub(crate) fn with_models(seen: &Observations, models: &[&'static dyn PathModel]) -> Self {
        let weighed: Vec<Weighed> = models.iter().map(|&model| Weighed::new(model, seen)).collect();
        let priors: Vec<f64> = models.iter().map(|model| model.prior()).collect();
        let masses = masses(&weighed, &priors);
        let mut order: Vec<usize> = (0..weighed.len()).collect();
        order.sort_by(|&a, &b| masses[b].total_cmp(&masses[a]));
        let mass = |&index: &usize| {
            let Weighed { model, values, tells_value, .. } = &weighed[index];
            let quantiles = Quantiles::from_weighted(&mut values.clone());
            let (name, description, mass) = (model.name(), model.describe(), masses[index]);
            ModelMass { name, description, mass, tells_value: *tells_value, quantiles }
        };
        let ranked: Vec<ModelMass> = order.iter().map(mass).collect();
        let leading = &weighed[order[0]];
        let fit = leading.best().map_or(0.0, |best| fit_probability(leading.model, &best.parameters, seen));
        let alternatives: Vec<Quantiles> =
            changed_priors(&priors).iter().map(|p| mixture(&weighed, &self::masses(&weighed, p))).collect();
        let quantiles = mixture(&weighed, &masses);
        let verdict = Verdict::new(&ranked, &quantiles, &alternatives, fit, seen.fastest_arrival);
        let share = weighed.iter().find(|w| !w.share.is_empty());
        Evidence {
            decided_by: order.get(1).and_then(|&next| leading.deciding_fact(&weighed[next], seen)),
            models: ranked,
            quantiles,
            share: share.map(|w| Quantiles::from_weighted(&mut w.share.clone())),
            fit_probability: fit,
            trains: seen.bodies,
            effective_trains: seen.effective_bodies,
            window_seconds: seen.window,
            watched_fraction: seen.watched_fraction,
            verdict,
        }
    }
}

/// The posterior probabilities with these priors.
fn masses(weighed: &[Weighed], priors: &[f64]) -> Vec<f64> {
    let logs: Vec<f64> = weighed.iter().zip(priors).map(|(w, prior)| w.integral.ln_evidence + prior.ln()).collect();
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logs.iter().map(|log| (log - highest).exp()).sum();
    logs.iter().map(|log| (log - highest).exp() / total).collect()
}

/// The priors with that of each model three times as large, and a third of it. (The sum need not be one.)
fn changed_priors(priors: &[f64]) -> Vec<Vec<f64>> {
    let changed = |(index, factor): (usize, f64)| {
        priors.iter().enumerate().map(|(i, prior)| if i == index { prior * factor } else { *prior }).collect()
    };
    (0..priors.len()).flat_map(|index| [(index, 3.0), (index, 1.0 / 3.0)]).map(changed).collect()
}

fn mixture(weighed: &[Weighed], masses: &[f64]) -> Quantiles {
    let of_model = |(w, mass): (&Weighed, &f64)| {
        w.values.iter().map(|(value, weight)| (*value, weight * mass)).collect::<Vec<_>>()
    };
    Quantiles::from_weighted(&mut weighed.iter().zip(masses).flat_map(of_model).collect::<Vec<_>>())
}

impl Weighed {
    fn new(model: &'static dyn PathModel, seen: &Observations) -> Self {
        let integral = integrate(model.axes(seen), |parameters, extra| ln_likelihood(model, parameters, seen, extra));
        let highest = integral.points.iter().map(|p| p.ln_likelihood).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = integral.points.iter().map(|p| (p.ln_likelihood - highest).exp()).sum();
        let (mut told, mut below, mut share) = (Vec::new(), Vec::new(), Vec::new());
        for point in &integral.points {
            let weight = (point.ln_likelihood - highest).exp() / total;
            // Together they are a millionth at most.
            if weight * integral.points.len() as f64 <= 1e-6 {
                continue;
            }
            match model.tell(&point.parameters, seen) {
                Tells::Available(value) => told.push((value, weight)),
                Tells::Share(bound) => {
                    share.push((bound, weight));
                    below.extend(spread_below(bound, weight));
                }
                Tells::AtMost(bound) => below.extend(spread_below(bound, weight)),
            }
        }
        let tells_value = told.iter().map(|v| v.1).sum::<f64>() > 0.5;
        narrow_to_window(&mut told, seen.watched_fraction, model.stretch());
        let values = [told, below].concat();
        Weighed { model, integral, values, share, tells_value }
    }

    fn best(&self) -> Option<&GridPoint> {
        self.integral.points.iter().max_by(|a, b| a.ln_likelihood.total_cmp(&b.ln_likelihood))
    }

    /// By which kind of fact the likelihood of this model's best parameters exceeds that of the other's most.
    fn deciding_fact(&self, other: &Weighed, seen: &Observations) -> Option<(Fact, f64)> {
        let (one, two) = (self.contributions(seen)?, other.contributions(seen)?);
        let differences = one.into_iter().zip(two).map(|((fact, a), (_, b))| (fact, a - b));
        differences.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, difference)| *difference > 0.0)
    }

    fn contributions(&self, seen: &Observations) -> Option<[(Fact, f64); 5]> {
        let best = &self.best()?.parameters;
        let of = |fact| {
            let segments = seen.segments.iter().filter(|s| s.fact == fact);
            (fact, segments.map(|s| s.weight * ln_density(&self.model.expect(best, s), s)).sum::<f64>())
        };
        let [quick, waits, loss] = self.model.ln_other_facts(best, seen);
        Some([
            of(Fact::Dispersion),
            of(Fact::Growth),
            (Fact::QuickGaps, quick),
            (Fact::IdleWaits, waits),
            (Fact::Loss, loss),
        ])
    }
}

/// The window's own mean is asked for, of which this part was watched and is known: the error of a mean of a sample from a finite population
/// is less by √(1 − f) (Cochran: Sampling Techniques, section 2.6). For `stretch`, see [`PathModel::stretch`].
fn narrow_to_window(values: &mut [(f64, f64)], watched: f64, stretch: f64) {
    let total: f64 = values.iter().map(|v| v.1).sum();
    if total <= 0.0 {
        return;
    }
    let mean = values.iter().map(|v| v.0 * v.1).sum::<f64>() / total;
    // A line through a train's delays knows the train's own mean but for a fifth of the variance; what is watched is not known better than
    // its stamps and its capacity, which have a part in it.
    let factor = stretch * (1.0 - watched.min(0.9) / LINE_VARIANCE_FACTOR).sqrt();
    for value in values {
        value.0 = (mean + (value.0 - mean) * factor).max(0.0);
    }
}

/// The logarithm of the likelihood, if what is seen scatters by this part of its own size more than the model says.
pub(crate) fn ln_likelihood(model: &dyn PathModel, parameters: &[f64], seen: &Observations, extra_scatter: f64) -> f64 {
    let of_segment = |segment: &Observation| {
        let expected = model.expect(parameters, segment);
        let extra = extra_scatter * segment.duration.max(segment.bits / seen.crude_capacity);
        let widened = Observation { host_variance: segment.host_variance + extra * extra, ..*segment };
        segment.weight * ln_density(&expected, &widened)
    };
    seen.segments.iter().map(of_segment).sum::<f64>() + model.ln_other_facts(parameters, seen).iter().sum::<f64>()
}
