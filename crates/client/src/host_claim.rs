//! Waiting until nobody else measures at this host.

use crate::cancel::StopCondition;
use crate::error::Error;
use kumade_measurement::report::Warning;
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

/// Between two attempts: less than a program takes to start, so that who waits is not passed by those who come.
const RETRY_INTERVAL: Span = Span::from_millis(10);
/// Between two looks at who it is.
const LOOK_INTERVAL: Span = Span::from_secs(1);

/// The claim of one measurement.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    /// None where none is wanted.
    config: Option<HostClaimConfig>,
    claim: Option<HostClaim>,
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
        let config = config.filter(|_| !addresses.iter().all(|address| address.ip().is_loopback()));
        let mut claimed = Claimed { config, ..Claimed::default() };
        claimed.renew(limit, on_event)?;
        Ok(claimed)
    }

    /// Lets others measure, as nothing is sent for a while.
    pub(crate) fn release(&mut self) {
        self.claim = None;
    }

    /// Waits for the claim again.
    pub(crate) fn renew(&mut self, limit: &StopCondition, on_event: &mut dyn FnMut(&Event)) -> Result<(), Error> {
        let Some(config) = self.config.filter(|_| self.claim.is_none()) else { return Ok(()) };
        let wait_until = clock::monotonic() + config.max_wait;
        let (mut holder, mut look_at) = (String::new(), clock::monotonic());
        loop {
            match HostClaim::try_new() {
                Ok(claim) => {
                    self.claim = Some(claim);
                    return Ok(());
                }
                Err(HostClaimError::Held) => {}
                Err(HostClaimError::Io(error)) => {
                    tracing::debug!("cannot claim this host for a measurement: {error}");
                    return Ok(());
                }
            }
            let now = clock::monotonic();
            if now >= look_at {
                look_at = now + LOOK_INTERVAL;
                let found = HostClaim::current_holder().ok().flatten().unwrap_or_default().to_string();
                if holder != found {
                    holder = found;
                    on_event(&Event::HostInUse { holder: holder.clone() });
                }
            }
            if now >= wait_until {
                return match config.if_held {
                    IfHeld::Fail => Err(Error::HostInUse { holder, wait: config.max_wait }),
                    IfHeld::GoOn => {
                        self.beside = Some(holder);
                        Ok(())
                    }
                };
            }
            limit.sleep_until(wait_until.min(now + RETRY_INTERVAL))?;
        }
    }

    /// The report says who measured besides.
    pub(crate) fn add_warning(&self, report: &mut Report) {
        let Some(holder) = &self.beside else { return };
        let directions = report.up.iter_mut().chain(&mut report.down);
        directions.for_each(|direction| direction.warnings.push(Warning::HostInUse(holder.clone())));
    }
}
