use super::gate::{Credential, Gate, Notice, Refusal, Visitor};
use super::sessions::SESSION_LIFETIME;
use super::token::AccessConfig;
use kumade_archive::AuditEntry;
use kumade_net::clock;
use kumade_units::Span;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who may do what, for all threads that are asked. Copies are the same.
#[derive(Clone)]
pub(crate) struct AccessControl {
    gate: Arc<Mutex<Gate>>,
    audit: Arc<dyn Fn(AuditEntry) + Send + Sync>,
}

impl AccessControl {
    /// `audit` takes what is to be noted.
    pub(crate) fn new(config: AccessConfig, audit: impl Fn(AuditEntry) + Send + Sync + 'static) -> Self {
        AccessControl { gate: Arc::new(Mutex::new(Gate::new(config))), audit: Arc::new(audit) }
    }

    /// For how long a browser stays logged in.
    pub(crate) fn session_lifetime() -> Span {
        SESSION_LIFETIME
    }

    pub(crate) fn set_config(&self, config: AccessConfig) {
        self.gate().set_config(config);
    }

    /// Who asks.
    ///
    /// # Errors
    /// Nobody who may see anything.
    pub(crate) fn admit(&self, credential: Credential<'_>, from: IpAddr) -> Result<Visitor, Refusal> {
        self.noting(|gate| gate.admit(credential, from, clock::monotonic()))
    }

    /// Whether somebody who was admitted before still is.
    pub(crate) fn is_admitted(&self, visitor: &Visitor) -> bool {
        self.gate().is_admitted(visitor, clock::monotonic())
    }

    /// Begins a session with a token: `secret` is by what the browser will be known.
    ///
    /// # Errors
    /// The token is not known, or was not looked at.
    pub(crate) fn log_in(&self, token: &str, secret: &str, from: IpAddr) -> Result<(), Refusal> {
        self.noting(|gate| gate.log_in(token, secret, from, clock::monotonic()))
    }

    /// Ends a session.
    pub(crate) fn log_out(&self, secret: &str, from: IpAddr) {
        self.noting(|gate| gate.log_out(secret, from, clock::monotonic()));
    }

    /// Whether there is anything to log in with.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.gate().config().tokens.is_empty()
    }

    /// Whether the page may be called by this name, which is no address.
    pub(crate) fn is_own_name(&self, name: &str, is_loopback: bool) -> bool {
        let gate = self.gate();
        let names = &gate.config().names;
        // What is reached from elsewhere may have any name, unless it was said which.
        (names.is_empty() && !is_loopback) || names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    fn noting<T>(&self, act: impl FnOnce(&mut Gate) -> T) -> T {
        let mut gate = self.gate();
        let (outcome, notices) = (act(&mut gate), gate.take_notices());
        drop(gate);
        let at = clock::realtime();
        notices.into_iter().for_each(|Notice { who, what }| (self.audit)(AuditEntry { at, who, what }));
        outcome
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        // A panic elsewhere has been reported; the gate is whole after each step.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AccessControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessControl").finish_non_exhaustive()
    }
}
