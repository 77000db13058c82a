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
    /// Where it has answered last.
    last_answering: Option<SocketAddr>,
    /// It has been said that it does not answer there any more.
    is_silence_reported: bool,
}

impl AddressFollower {
    pub(crate) fn new(host: ResolvedHost, now: Time) -> Self {
        AddressFollower {
            address: host.address(),
            host,
            silent_since: Some(now),
            last_answering: None,
            is_silence_reported: false,
        }
    }

    /// Whether a path leads to the far end now. Returns the address to use from now on, where that is another one than before.
    pub(crate) fn advance(&mut self, is_reachable: bool, now: Time) -> Option<SocketAddr> {
        if is_reachable {
            if self.silent_since.take().is_some() {
                self.record_answer();
            }
            return None;
        }
        let since = *self.silent_since.get_or_insert(now);
        if now - since >= self.host.attempt_timeout() {
            if self.last_answering.is_some() && !self.is_silence_reported {
                self.is_silence_reported = true;
                tracing::warn!("the far end does not answer at {}: trying all addresses of its name", self.address);
            }
            self.host.record_failure(self.address, now);
            self.silent_since = Some(now);
        }
        let address = self.host.address();
        if address == self.address {
            return None;
        }
        tracing::debug!("trying {address} in place of {}", self.address);
        (self.address, self.silent_since) = (address, Some(now));
        Some(address)
    }

    fn record_answer(&mut self) {
        self.host.record_answer(self.address);
        let before = self.last_answering.replace(self.address);
        if before.is_some_and(|before| before != self.address) {
            tracing::warn!("the far end answers at {} now", self.address);
        }
        self.is_silence_reported = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::clock;
    use kumade_units::Span;

    #[test]
    fn the_only_address_stays_and_one_that_answers_is_kept() {
        let start = clock::monotonic();
        let address: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let mut follower = AddressFollower::new(address.into(), start);
        assert!((0..100).all(|seconds| follower.advance(false, start + Span::from_secs(seconds)).is_none()));
        let host = ResolvedHost::resolve("localhost", 1, None).unwrap();
        let first = host.address();
        let mut follower = AddressFollower::new(host.clone(), start);
        assert!((0..100).all(|seconds| follower.advance(true, start + Span::from_secs(seconds)).is_none()));
        // Silence counts from its beginning.
        let silent = start + Span::from_secs(200);
        assert_eq!(follower.advance(false, silent), None);
        let next = follower.advance(false, silent + host.attempt_timeout());
        assert_eq!(next.unwrap_or(first), host.address());
    }
}
