//! A measurement upwards between hosts of a test network, as `kumade measure` makes it against `kumade serve`.

use crate::accuracy::observed_trains::ObservedTrains;
use crate::error::RunError;
use crate::running_server::RunningServer;
use kumade_client::{Directions, MeasureConfig, MeasurementPlan};
use kumade_measurement::report::DirectionReport;
use kumade_measurement::{Event, TransportChoice};
use kumade_net::clock;
use kumade_netns_testbed::Host;
use kumade_probe_train::Transport;
use kumade_units::{Direction, Time};

/// What came of it, and when.
pub(crate) struct UpwardMeasurement {
    /// Or why there is none.
    pub(crate) report: Result<DirectionReport, String>,
    /// All of the time that it took.
    pub(crate) whole: (Time, Time),
    /// What its value is an average over; without a value, the time in which the method's trains passed.
    pub(crate) window: (Time, Time),
}

impl UpwardMeasurement {
    /// Measures from `near`. That the path cannot be measured is a result.
    ///
    /// # Errors
    /// The system refuses to enter the host.
    pub(crate) fn make(
        near: &Host,
        server: &RunningServer,
        (transport, seed): (Transport, u64),
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Self, RunError> {
        let (directions, transport) = (Directions::Up, TransportChoice::Fixed(transport));
        let plan = MeasurementPlan { directions, transport, seed, ..MeasurementPlan::default() };
        let server = server.address();
        let config = MeasureConfig { plan, ..MeasureConfig::new(server.ip().to_string(), server.port()) };
        let mut observed = ObservedTrains::new(false, Direction::Up);
        let mut record = |event: &Event| {
            observed.record_event(event);
            on_event(event);
        };
        let began = clock::realtime();
        let result = near.namespace.run(|| kumade_client::measure(&config, &mut record));
        let result = result.map_err(RunError::during("enter the near host"))?;
        let whole = (began, clock::realtime());
        let report = result.map_err(|error| error.to_string());
        let report = report.and_then(|report| report.up.ok_or_else(|| "the report lacks the direction".into()));
        let window = observed.truth_window(report.as_ref().ok()).unwrap_or(whole);
        Ok(UpwardMeasurement { report, whole, window })
    }
}
