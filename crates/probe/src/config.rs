use crate::cancel::CancelToken;
use crate::clocks::NtpServer;
use crate::family::Family;
use measurement::MeasurementPlan;
use net::Binding;
use units::Span;
use wire::Key;

/// The port of `kumade serve` unless it is told another.
pub const DEFAULT_PORT: u16 = wire::DEFAULT_PORT;

/// What to measure, against whom, and from where.
#[derive(Debug, Clone)]
pub struct MeasureConfig {
    /// The server: a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Which addresses of the server to use.
    pub family: Family,
    /// What to measure, and how. The seed is drawn anew for each measurement.
    pub plan: MeasurementPlan,
    /// From where on this host.
    pub binding: Binding,
    /// The key that the server wants.
    pub key: Option<Key>,
    /// A server that knows how wrong this host's clock is.
    pub ntp: Option<NtpServer>,
    /// The measurement fails if it has not ended so long after its start; none waits for as long as it takes.
    pub deadline: Option<Span>,
    /// Ends the measurement from another thread.
    pub cancel: CancelToken,
}

impl MeasureConfig {
    /// Delay, capacity and available bandwidth in both directions to `host`, by the default method over what passes.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        MeasureConfig {
            host: host.into(),
            port,
            family: Family::Any,
            plan: MeasurementPlan::default(),
            binding: Binding::default(),
            key: None,
            ntp: None,
            deadline: None,
            cancel: CancelToken::default(),
        }
    }

    /// The same with a plan that is changed so.
    pub fn with_plan(mut self, change: impl FnOnce(&mut MeasurementPlan)) -> Self {
        change(&mut self.plan);
        self
    }
}
