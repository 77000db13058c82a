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
        let Some(HostClaimConfig { max_wait, .. }) = config else { return Ok(claimed) };
        let is_free = claimed.wait_again(max_wait, limit, on_event, &mut || Ok(()))?;
        is_free.map_err(|holder| Error::HostInUse { holder, wait: max_wait })?;
        Ok(claimed)
    }

    /// Lets others measure, as nothing is sent for a while.
    pub(crate) fn release(&mut self) {
        self.claim = None;
    }

    /// Waits for the claim again, no longer than this or than is wanted; `meanwhile` is called at once and each second. The inner error says who holds
    /// it, beside whom this measurement may not go on. Once it has gone on beside another one, it does not wait again.
    pub(crate) fn wait_again(
        &mut self,
        max_wait: Span,
        limit: &StopCondition,
        on_event: &mut dyn FnMut(&Event),
        meanwhile: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Result<(), String>, Error> {
        self.obtain(max_wait, limit, on_event, meanwhile, &mut HostClaim::try_new)
    }

    fn obtain(
        &mut self,
        max_wait: Span,
        limit: &StopCondition,
        on_event: &mut dyn FnMut(&Event),
        meanwhile: &mut dyn FnMut() -> Result<(), Error>,
        try_claim: &mut dyn FnMut() -> Result<HostClaim, HostClaimError>,
    ) -> Result<Result<(), String>, Error> {
        let Some(config) = self.config.filter(|_| self.claim.is_none()) else { return Ok(Ok(())) };
        let max_wait = if self.beside.is_some() { Span::ZERO } else { max_wait.min(config.max_wait) };
        let wait_until = clock::monotonic() + max_wait;
        let (mut holder, mut look_at) = (String::new(), clock::monotonic());
        loop {
            match try_claim() {
                Ok(claim) => {
                    self.claim = Some(claim);
                    return Ok(Ok(()));
                }
                Err(HostClaimError::Held) => {}
                Err(HostClaimError::Io(error)) => {
                    tracing::debug!("cannot claim this host for a measurement: {error}");
                    return Ok(Ok(()));
                }
            }
            let now = clock::monotonic();
            if now >= look_at {
                look_at = now + LOOK_INTERVAL;
                meanwhile()?;
                let found = HostClaim::current_holder().ok().flatten().unwrap_or_default().to_string();
                if holder != found {
                    holder = found;
                    on_event(&Event::HostInUse { holder: holder.clone() });
                }
            }
            if now >= wait_until {
                return Ok(match config.if_held {
                    IfHeld::Fail => Err(holder),
                    IfHeld::GoOn => {
                        self.beside = Some(holder);
                        Ok(())
                    }
                });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelToken;

    /// Waits for a claim that another measurement never gives up: what comes of it, and how often the session was kept meanwhile.
    fn wait_in_vain(claimed: &mut Claimed, max_wait: Span) -> (Result<(), String>, u32) {
        let (mut kept, limit) = (0, StopCondition::new(&CancelToken::default(), None));
        let mut meanwhile = || {
            kept += 1;
            Ok(())
        };
        let held = &mut || Err(HostClaimError::Held);
        let done = claimed.obtain(max_wait, &limit, &mut |_| {}, &mut meanwhile, held).unwrap();
        (done, kept)
    }

    #[test]
    fn a_claim_that_others_keep_is_waited_for_no_longer_than_the_session_lasts_and_but_once() {
        // Who waited for that long would not be seen to end.
        let config = |if_held| Some(HostClaimConfig { max_wait: Span::from_secs(100_000), if_held });
        let short = Span::from_millis(50);
        let mut claimed = Claimed { config: config(IfHeld::Fail), ..Claimed::default() };
        let (done, kept) = wait_in_vain(&mut claimed, short);
        assert!(done.is_err() && kept > 0 && claimed.beside.is_none(), "{done:?} {kept}");
        let mut claimed = Claimed { config: config(IfHeld::GoOn), ..Claimed::default() };
        assert_eq!(wait_in_vain(&mut claimed, short).0, Ok(()));
        assert!(claimed.beside.is_some());
        assert_eq!(wait_in_vain(&mut claimed, Span::from_secs(100_000)).0, Ok(()));
    }
}
