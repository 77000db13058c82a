use crate::status::control::{Reply, Request, StatusProtocol};
use crate::status::document::StatusDocument;
use kumade_daemon::metrics::encode_text;
use kumade_daemon::{ClaimedName, ControlError, ControlServer};
use kumade_net::clock;
use kumade_net::waker::Waker;
use kumade_units::{Span, Time};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Renews the status of a running program when somebody asks for it, and each second while something happens: rates are about the last
/// interval, and who asks after a long time is not to get those of all of it.
#[derive(Debug)]
pub struct Recorder<D> {
    started: Time,
    /// As it is filled each time.
    template: D,
    latest: LatestStatus<D>,
}

/// The status of a running program. All clones are the same.
#[derive(Debug)]
pub struct LatestStatus<D>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D> {
    latest: Mutex<Latest<D>>,
    has_renewed: Condvar,
}

#[derive(Debug)]
struct Latest<D> {
    status: D,
    renewed_at: Option<Time>,
    /// Somebody waits for a renewal.
    is_asked_for: bool,
    /// Wakes the thread that renews it, as long as there is one.
    waker: Option<Arc<Waker>>,
}

/// Also the shortest interval of rates and shares.
const RENEWAL_INTERVAL: Span = Span::from_secs(1);
/// Whoever asks gets what there is after this time: the thread that renews it may be reading a configuration.
const RENEWAL_TIMEOUT: Duration = Duration::from_millis(500);

impl<D: StatusDocument> Recorder<D> {
    /// For a program that starts now, with what it says until its status is renewed, and what is filled then.
    pub fn new(blank: D) -> Self {
        let latest = Latest { status: blank.clone(), renewed_at: None, is_asked_for: false, waker: None };
        let shared = Shared { latest: Mutex::new(latest), has_renewed: Condvar::new() };
        Recorder { started: clock::monotonic(), template: blank, latest: LatestStatus(Arc::new(shared)) }
    }

    /// Wakes the thread that renews it by this when somebody asks for a status that is older than a second.
    pub fn renew_when_asked(&self, waker: Arc<Waker>) {
        self.latest.lock().waker = Some(waker);
    }

    /// The status, also as renewed later.
    pub fn latest(&self) -> LatestStatus<D> {
        self.latest.clone()
    }

    /// Changes what is filled each time, from the next call of [`renew`](Self::renew) on.
    pub fn change_template(&mut self, change: impl FnOnce(&mut D)) {
        change(&mut self.template);
        // What there was before may not be comparable.
        self.latest.lock().renewed_at = None;
    }

    /// Whether it is to be [renewed](Self::renew) now: there was no status yet, or the last one is a second old, and somebody asks or
    /// something `has_happened` since.
    pub fn is_due(&self, has_happened: bool, now: Time) -> bool {
        let latest = self.latest.lock();
        let is_old = |renewed| now - renewed >= RENEWAL_INTERVAL;
        latest.renewed_at.is_none_or(|renewed| is_old(renewed) && (has_happened || latest.is_asked_for))
    }

    /// When it is due again, where something has happened.
    pub fn next_renewal(&self) -> Time {
        self.latest.lock().renewed_at.map_or(Time::ZERO, |renewed| renewed + RENEWAL_INTERVAL)
    }

    /// Renews it. `fill` enters what is known at this time of the monotonic clock.
    ///
    /// # Errors
    /// That of `fill`; the status stays as it was.
    pub fn renew<E>(&mut self, fill: impl FnOnce(&mut D, Time) -> Result<(), E>) -> Result<(), E> {
        let now = clock::monotonic();
        let mut status = self.template.clone().with_time(self::utc_timestamp(), (now - self.started).as_secs_f64());
        fill(&mut status, now)?;
        let mut latest = self.latest.lock();
        if latest.renewed_at.replace(now).is_some() {
            status = status.with_rates_since(&latest.status);
        }
        (latest.status, latest.is_asked_for) = (status, false);
        self.latest.0.has_renewed.notify_all();
        Ok(())
    }
}

impl<D> Drop for Recorder<D> {
    fn drop(&mut self) {
        self.latest.lock().waker = None;
        self.latest.0.has_renewed.notify_all();
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

    /// A copy of it, at most about a second old: waits until it is renewed, if it is older and there is a thread that does it.
    pub fn get(&self) -> D {
        let is_awaited = |latest: &mut Latest<D>| {
            let is_old = latest.renewed_at.is_none_or(|renewed| clock::monotonic() - renewed >= RENEWAL_INTERVAL);
            let waker = latest.waker.as_ref().filter(|_| is_old);
            if !latest.is_asked_for {
                waker.into_iter().for_each(|waker| waker.wake());
            }
            latest.is_asked_for |= waker.is_some();
            waker.is_some()
        };
        let waited = self.0.has_renewed.wait_timeout_while(self.lock(), RENEWAL_TIMEOUT, is_awaited);
        waited.unwrap_or_else(PoisonError::into_inner).0.status.clone()
    }
}

impl<D> LatestStatus<D> {
    /// It is whole at any time, even if a thread has panicked.
    fn lock(&self) -> MutexGuard<'_, Latest<D>> {
        self.0.latest.lock().unwrap_or_else(PoisonError::into_inner)
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
