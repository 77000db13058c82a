use prometheus_client::collector::Collector;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a program says of itself at one moment, to programs and as metrics.
pub trait StatusDocument: Clone + Collector + Serialize + DeserializeOwned {
    /// The kind of program, such as `gateway`: the names of its control sockets and metrics have it.
    const SERVICE: &'static str;

    /// The same, of a moment (UTC, RFC 3339) so many seconds after the program's start.
    #[must_use]
    fn with_time(self, time: String, duration_seconds: f64) -> Self;

    /// With the rates and shares of the interval since an earlier one of the same program.
    #[must_use]
    fn with_rates_since(self, earlier: &Self) -> Self;
}
