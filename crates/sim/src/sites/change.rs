use kumade_units::{Rate, Span};

/// What becomes of a path, in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PathChange {
    /// Nothing passes any more, and what is on its way is lost.
    Cut,
    /// It is no longer cut.
    Restore,
    /// It has this rate.
    Rate(Rate),
    /// It has this delay, each way.
    Delay(Span),
    /// It loses packets with this probability.
    Loss(f64),
}
