//! Waiting until nobody else measures at this host.

use crate::cancel::StopCondition;
use crate::error::Error;
use kumade_measurement::{Event, Report};
use kumade_net::{HostClaim, HostClaimError, clock};
use kumade_units::Span;
use std::net::SocketAddr;

/// Two measurements at once at a host would each find what the other one leaves. So one waits for the other, whichever processes of
/// whichever users they are. See [`kumade_net::HostClaim`] for what a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostClaimConfig {
    /// Maximum time to wait for others.
    pub max_wait: Span,
    /// What to do if another one still measures then.
    pub if_held: IfHeld,
}

/// What a measurement does that has waited for another one at its host as long as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfHeld {
    /// It fails.
    Fail,
    /// It measures beside the other one, and the report has a warning: any user can hold the claim for ever, which must not keep a daemon from
    /// measuring.
    GoOn,
}

/// Between two attempts.
const RETRY_INTERVAL: Span = Span::from_millis(100);

/// The claim of one measurement.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    _claim: Option<HostClaim>,
    /// Who measures besides.
    beside: Option<String>,
}

impl Claimed {
    /// Waits for the claim, as far as it is wanted. A path over the loopback interface uses none of the host's links, and needs none.
    pub(crate) fn wait(
        config: Option<HostClaimConfig>,
        addresses: &[SocketAddr],
        limit: &StopCondition,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Self, Error> {
        let Some(config) = config.filter(|_| !addresses.iter().all(|address| address.ip().is_loopback())) else {
            return Ok(Claimed::default());
        };
        let wait_until = clock::monotonic() + config.max_wait;
        let mut told = None;
        loop {
            let holder = match HostClaim::try_new() {
                Ok(claim) => return Ok(Claimed { _claim: Some(claim), beside: None }),
                Err(HostClaimError::Held(holder)) => holder.to_string(),
                Err(HostClaimError::Io(error)) => {
                    tracing::debug!("cannot claim this host for a measurement: {error}");
                    return Ok(Claimed::default());
                }
            };
            if clock::monotonic() >= wait_until {
                return match config.if_held {
                    IfHeld::Fail => Err(Error::HostInUse { holder, wait: config.max_wait }),
                    IfHeld::GoOn => Ok(Claimed { _claim: None, beside: Some(holder) }),
                };
            }
            if told.as_ref() != Some(&holder) {
                on_event(&Event::HostInUse { holder: holder.clone() });
                told = Some(holder);
            }
            limit.sleep_until(wait_until.min(clock::monotonic() + RETRY_INTERVAL))?;
        }
    }

    /// The report says who measured besides.
    pub(crate) fn add_warning(&self, report: &mut Report) {
        let Some(holder) = &self.beside else { return };
        let directions = report.up.iter_mut().chain(&mut report.down);
        directions.for_each(|direction| direction.warnings.push(format!("{holder} measured at this host meanwhile")));
    }
}
