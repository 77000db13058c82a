//! What a path model is.

use crate::grid::Axis;
use crate::observations::{Observation, Observations};

/// What a model's parameters say of the available bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tells {
    /// So much, in bit/s.
    Available(f64),
    /// What one flow can have, in bit/s: anything up to that may be unused.
    Share(f64),
    /// Nothing but that no more is available, in bit/s.
    AtMost(f64),
}

/// By how much the delay is expected to grow over a segment, and the variance of that, in s and s², without what hosts account for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    pub(crate) growth: f64,
    pub(crate) variance: f64,
    /// Whether the queue may have been empty meanwhile, and the delay has grown by more than it would have else.
    pub(crate) may_idle: bool,
    /// Whether cross traffic may not have sent anything at all.
    pub(crate) silence: Option<Silence>,
}

/// Cross traffic that comes in few large pieces sends none in some segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Silence {
    /// How probable that is.
    pub(crate) probability: f64,
    /// By how much the delay then grows, in s.
    pub(crate) growth: f64,
}

impl Expected {
    /// Mean and variance of the growth over segments in which cross traffic did send something.
    pub(crate) fn beside_silence(&self, silence: &Silence) -> (f64, f64) {
        let met = (1.0 - silence.probability).max(1e-12);
        let shift = (self.growth - silence.growth) / met;
        let variance = (self.variance + (met * shift).powi(2)) / met - shift * shift;
        (silence.growth + shift, variance.max(0.0))
    }
}

/// A kind of path with a few parameters. Adding one takes a file below `models` and a line in [`MODELS`](crate::MODELS).
pub trait PathModel: Sync {
    /// As reports call it.
    fn name(&self) -> &'static str;

    /// In words, for people: "the path is …".
    fn describe(&self) -> &'static str;

    /// How probable it is before anything has been seen. Those of all models add up to one.
    fn prior(&self) -> f64;

    /// Its parameters, each equally probable anywhere on its axis. They follow from the observations only in where the grid lies.
    fn axes(&self, seen: &Observations) -> Vec<Axis>;

    /// What is expected of a segment, at these parameters.
    fn expect(&self, parameters: &[f64], segment: &Observation) -> Expected;

    /// The logarithm of the density of what is known of the path besides segments: of the logarithm of the quick rate, of the logarithm
    /// of the idle wait, and the probability of as much loss.
    fn ln_other_facts(&self, parameters: &[f64], seen: &Observations) -> [f64; 3];

    /// By how much the distribution of what is available is widened, so that it covers the truth as often as it says on paths that tune it
    /// (Vovk, Gammerman and Shafer: Algorithmic Learning in a Random World, 2005).
    fn stretch(&self) -> f64 {
        1.0
    }

    /// What that says of the available bandwidth.
    fn tell(&self, parameters: &[f64], seen: &Observations) -> Tells;
}
