use kumade_net::ResolvedHost;
use kumade_units::Time;
use std::net::SocketAddr;

/// Which address of a far end is to be used that is known by its name.
pub(crate) struct AddressFollower {
    host: ResolvedHost,
    /// The one in use.
    address: SocketAddr,
    /// Since when the far end has not answered there, or when it was tried last; none while it answers.
    silent_since: Option<Time>,
}

impl AddressFollower {
    pub(crate) fn new(host: ResolvedHost, now: Time) -> Self {
        AddressFollower { address: host.address(), host, silent_since: Some(now) }
    }

    /// Whether a path leads to the far end now. Returns the address to use from now on, where that is another one than before.
    pub(crate) fn advance(&mut self, is_reachable: bool, now: Time) -> Option<SocketAddr> {
        if is_reachable {
            if self.silent_since.take().is_some() {
                self.host.record_answer(self.address);
            }
            return None;
        }
        let since = *self.silent_since.get_or_insert(now);
        if now - since >= self.host.attempt_timeout() {
            self.host.record_failure(self.address, now);
            self.silent_since = Some(now);
        }
        let address = self.host.address();
        if address == self.address {
            return None;
        }
        tracing::info!("the far end does not answer at {}: trying {address}", self.address);
        (self.address, self.silent_since) = (address, Some(now));
        Some(address)
    }
}
