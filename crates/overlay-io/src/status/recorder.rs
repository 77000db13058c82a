use crate::status::control::{Reply, Request, StatusProtocol};
use crate::status::document::StatusDocument;
use kumade_daemon::metrics::encode_text;
use kumade_daemon::{ClaimedName, ControlError, ControlServer};
use kumade_net::clock;
use kumade_units::{Span, Time};
use std::sync::{Arc, Mutex, PoisonError};

/// Renews the status of a running program, once a second, for whoever asks for it meanwhile.
#[derive(Debug)]
pub struct Recorder<D> {
    started: Time,
    last_renewal: Option<Time>,
    /// As it is filled each time.
    template: D,
    latest: LatestStatus<D>,
}

/// The status of a running program, at most about a second old. All clones are the same.
#[derive(Debug)]
pub struct LatestStatus<D>(Arc<Mutex<D>>);

/// Also the interval of rates and shares.
const RENEWAL_INTERVAL: Span = Span::from_secs(1);

impl<D: StatusDocument> Recorder<D> {
    /// For a program that starts now, with what it says until its status is renewed, and what is filled then.
    pub fn new(blank: D) -> Self {
        let latest = LatestStatus(Arc::new(Mutex::new(blank.clone())));
        Recorder { started: clock::monotonic(), last_renewal: None, template: blank, latest }
    }

    /// The status, also as renewed later.
    pub fn latest(&self) -> LatestStatus<D> {
        self.latest.clone()
    }

    /// Changes what is filled each time, from the next call of [`renew`](Self::renew) on.
    pub fn change_template(&mut self, change: impl FnOnce(&mut D)) {
        change(&mut self.template);
        // What there was before may not be comparable.
        self.last_renewal = None;
    }

    /// Renews it where a second has passed; to be called more often. `fill` enters what is known at this time of the
    /// monotonic clock.
    ///
    /// # Errors
    /// That of `fill`; the status stays as it was.
    pub fn renew<E>(&mut self, fill: impl FnOnce(&mut D, Time) -> Result<(), E>) -> Result<(), E> {
        let now = clock::monotonic();
        if self.last_renewal.is_some_and(|renewed| now - renewed < RENEWAL_INTERVAL) {
            return Ok(());
        }
        let mut status = self.template.clone().with_time(self::utc_timestamp(), (now - self.started).as_secs_f64());
        fill(&mut status, now)?;
        if self.last_renewal.replace(now).is_some() {
            status = status.with_rates_since(&self.latest.get());
        }
        self.latest.set(status);
        Ok(())
    }
}

impl<D: StatusDocument> LatestStatus<D> {
    /// Lets others ask for it, until the result is dropped.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn serve(self, claim: ClaimedName<StatusProtocol<D>>) -> Result<ControlServer, ControlError> {
        claim.serve(move |Request::Status| Reply::Status { status: Box::new(self.get()) })
    }

    /// In Prometheus' text format (OpenMetrics). The names of the metrics begin with `kumade_` and the kind of program.
    pub fn encode_metrics(&self) -> String {
        encode_text(&format!("kumade_{}", D::SERVICE), self.get())
    }

    /// A copy of it.
    pub fn get(&self) -> D {
        // It is whole at any time, even if a thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, status: D) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

impl<D> Clone for LatestStatus<D> {
    fn clone(&self) -> Self {
        LatestStatus(self.0.clone())
    }
}

/// The moment as documents have it: UTC, RFC 3339.
pub fn utc_timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
