//! A far host that is known by its name: one of its addresses after the other, and the name again.

use crate::clock;
use crate::interface::Family;
use kumade_units::{Span, Time};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A host with a port, and which of its addresses is in use. All addresses of a name are tried in turn, IPv6 and IPv4
/// alternating (RFC 8305 §4), until one answers. Once all have failed, the name is looked up again, as the system does it, on a
/// thread of its own; what is new then is tried first. Who uses the address says whether it answers.
///
/// Clones are the same host.
#[derive(Debug, Clone)]
pub struct ResolvedHost(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// What is looked up; none where the address itself was given.
    name: Option<HostName>,
    rotation: Mutex<AddressRotation>,
}

/// What is looked up.
#[derive(Debug, Clone)]
struct HostName {
    name: String,
    port: u16,
    /// Which of its addresses are used; none for all.
    family: Option<Family>,
}

/// Which address is tried, and when the name is looked up again. Pure: it takes the time.
#[derive(Debug)]
struct AddressRotation {
    /// At least one; the name service's order, with the IP versions alternating.
    addresses: Vec<SocketAddr>,
    /// The place of the one in use.
    current: usize,
    /// The one in use has answered last.
    is_answering: bool,
    /// Addresses that have failed since one answered.
    failures: usize,
    /// Of these, those since the last look-up.
    failures_since_lookup: usize,
    is_looking_up: bool,
    next_lookup: Time,
}

/// Until an address that does not answer is left for the next one. RFC 8305 §5 has 250 ms for attempts that go on beside each
/// other (2 s at most); here an attempt ends, and a handshake takes two round trips and repeats its first message after 1 s.
const FIRST_ATTEMPT_TIMEOUT: Span = Span::from_millis(1500);
/// After addresses have failed again and again: time for an end that is far away, or overloaded.
const MAX_ATTEMPT_TIMEOUT: Span = Span::from_secs(6);
/// Of a name that leads nowhere: name servers are not to be asked all the time.
const MIN_LOOKUP_INTERVAL: Span = Span::from_secs(5);

impl ResolvedHost {
    /// Looks up a name, as the system does; of its addresses, only those of one IP version are used where one is given. That may take
    /// its time.
    ///
    /// # Errors
    /// The name service does not know the name, or does not answer; or the name has no address of that version.
    pub fn resolve(name: &str, port: u16, family: Option<Family>) -> io::Result<Self> {
        let name = HostName { name: name.to_owned(), port, family };
        let addresses = name.look_up()?;
        Ok(ResolvedHost::new(Some(name), addresses))
    }

    fn new(name: Option<HostName>, addresses: Vec<SocketAddr>) -> Self {
        ResolvedHost(Arc::new(Shared { name, rotation: Mutex::new(AddressRotation::new(addresses)) }))
    }

    /// The address to use now.
    pub fn address(&self) -> SocketAddr {
        self.rotation().address()
    }

    /// Whether the address may become another one.
    pub fn is_named(&self) -> bool {
        self.0.name.is_some()
    }

    /// How long to wait for an answer before [`record_failure`](Self::record_failure).
    pub fn attempt_timeout(&self) -> Span {
        self.rotation().attempt_timeout()
    }

    /// The far end answers at this address.
    pub fn record_answer(&self, address: SocketAddr) {
        self.rotation().record_answer(address);
    }

    /// The far end does not answer at this address, or no longer. If it is the one in use, another one is from now on, if there
    /// is one. Returns at once.
    pub fn record_failure(&self, address: SocketAddr, now: Time) {
        let Some(name) = &self.0.name else { return };
        if !self.rotation().record_failure(address, now) {
            return;
        }
        let (name, shared) = (name.clone(), Arc::clone(&self.0));
        let look_up = move || {
            let found = name.look_up();
            let found =
                found.inspect_err(|error| tracing::debug!("look up {}: {error}", name.name)).unwrap_or_default();
            ResolvedHost(shared).rotation().end_lookup(found, clock::monotonic());
        };
        if let Err(error) = thread::Builder::new().name("resolver".into()).spawn(look_up) {
            tracing::debug!("start a thread that looks up a name: {error}");
            self.rotation().end_lookup(Vec::new(), now);
        }
    }

    fn rotation(&self) -> MutexGuard<'_, AddressRotation> {
        // It is whole at any time.
        self.0.rotation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostName {
    /// At least one address.
    fn look_up(&self) -> io::Result<Vec<SocketAddr>> {
        let is_usable =
            |address: &SocketAddr| self.family.is_none_or(|family| Family::from_address(address.ip()) == family);
        let addresses: Vec<_> = (self.name.as_str(), self.port).to_socket_addrs()?.filter(is_usable).collect();
        let version = self.family.map(|family| format!(" of {family}")).unwrap_or_default();
        let no_address = || io::Error::new(io::ErrorKind::NotFound, format!("the name has no address{version}"));
        (!addresses.is_empty()).then_some(addresses).ok_or_else(no_address)
    }
}

impl From<SocketAddr> for ResolvedHost {
    /// A host whose address was given; it stays.
    fn from(address: SocketAddr) -> Self {
        ResolvedHost::new(None, vec![address])
    }
}

impl AddressRotation {
    fn new(addresses: Vec<SocketAddr>) -> Self {
        AddressRotation {
            addresses: alternate_families(addresses),
            current: 0,
            is_answering: false,
            failures: 0,
            failures_since_lookup: 0,
            is_looking_up: false,
            next_lookup: Time::ZERO,
        }
    }

    fn address(&self) -> SocketAddr {
        self.addresses[self.current]
    }

    fn attempt_timeout(&self) -> Span {
        let rounds = (self.failures / self.addresses.len()).min(8);
        (FIRST_ATTEMPT_TIMEOUT * (1 << rounds)).min(MAX_ATTEMPT_TIMEOUT)
    }

    fn record_answer(&mut self, address: SocketAddr) {
        if address == self.address() {
            (self.is_answering, self.failures, self.failures_since_lookup) = (true, 0, 0);
        }
    }

    /// Returns whether the name is to be looked up.
    fn record_failure(&mut self, address: SocketAddr, now: Time) -> bool {
        // What others have left already.
        if address != self.address() {
            return false;
        }
        self.is_answering = false;
        self.failures = self.failures.saturating_add(1);
        self.failures_since_lookup = self.failures_since_lookup.saturating_add(1);
        self.current = (self.current + 1) % self.addresses.len();
        let is_due =
            self.failures_since_lookup >= self.addresses.len() && now >= self.next_lookup && !self.is_looking_up;
        self.is_looking_up |= is_due;
        is_due
    }

    /// What a look-up has found; nothing where it has failed.
    fn end_lookup(&mut self, found: Vec<SocketAddr>, now: Time) {
        (self.is_looking_up, self.failures_since_lookup) = (false, 0);
        self.next_lookup = now + MIN_LOOKUP_INTERVAL;
        let mut found = alternate_families(found);
        let is_known = |address: &SocketAddr| self.addresses.contains(address);
        // What is known goes on in its turn.
        if found.is_empty() || found.len() == self.addresses.len() && found.iter().all(is_known) {
            return;
        }
        // One that answers meanwhile is kept. Of the others, those that are known have just failed.
        found.sort_by_key(is_known);
        if self.is_answering {
            let current = self.address();
            found.retain(|address| *address != current);
            found.insert(0, current);
        }
        (self.addresses, self.current) = (found, 0);
    }
}

/// One of each IP version in turn, beginning with that of the first, each in its order.
fn alternate_families(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_first_family = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let count = addresses.len();
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == is_first_family);
    let place = |offset: usize| move |(place, address): (usize, SocketAddr)| (2 * place + offset, address);
    let mut ordered: Vec<_> = first.into_iter().enumerate().map(place(0)).collect();
    ordered.extend(second.into_iter().enumerate().map(place(1)));
    ordered.sort_by_key(|(place, _)| *place);
    let mut unique = Vec::with_capacity(count);
    for (_, address) in ordered {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn the_ip_versions_alternate_and_each_address_is_there_once() {
        let found =
            addresses(&["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::3]:1"]);
        let expected = addresses(&["[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::2]:1", "[2001:db8::3]:1"]);
        assert_eq!(alternate_families(found), expected);
        assert_eq!(alternate_families(Vec::new()), []);
    }

    #[test]
    fn all_addresses_are_tried_in_turn_and_then_the_name_is_looked_up() {
        let both = addresses(&["[2001:db8::1]:1", "192.0.2.1:1"]);
        let mut rotation = AddressRotation::new(both.clone());
        assert!(!rotation.record_failure(both[0], after(1)));
        assert_eq!(rotation.address(), both[1]);
        assert!(!rotation.record_failure(both[0], after(1)), "it is not the one in use");
        assert!(rotation.record_failure(both[1], after(2)));
        assert!(
            !rotation.record_failure(both[0], after(3)) && !rotation.record_failure(both[1], after(4)),
            "it goes on"
        );
        // It knows the same: there is no other in use than before.
        rotation.end_lookup(both.iter().rev().copied().collect(), after(5));
        assert_eq!(rotation.address(), both[0]);
        assert!(!rotation.record_failure(both[0], after(6)) && !rotation.record_failure(both[1], after(7)), "too soon");
        assert!(rotation.record_failure(both[0], after(10)));
    }

    #[test]
    fn what_is_new_in_an_answer_comes_first_and_what_answers_stays() {
        let [old, new, other] = addresses(&["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"])[..] else { panic!() };
        let mut rotation = AddressRotation::new(vec![old]);
        assert!(rotation.record_failure(old, after(1)));
        rotation.end_lookup(vec![old, new], after(1));
        assert_eq!((rotation.address(), rotation.addresses.clone()), (new, vec![new, old]));
        assert!(!rotation.record_failure(new, after(2)) && rotation.record_failure(old, after(7)));
        rotation.record_answer(new);
        rotation.end_lookup(vec![other], after(8));
        assert_eq!((rotation.address(), rotation.addresses.clone()), (new, vec![new, other]));
        rotation.end_lookup(Vec::new(), after(9));
        assert_eq!(rotation.address(), new);
    }

    #[test]
    fn attempts_become_longer_while_nothing_answers() {
        let both = addresses(&["192.0.2.1:1", "192.0.2.2:1"]);
        let mut rotation = AddressRotation::new(both.clone());
        let mut timeouts = Vec::new();
        for number in 0..100 {
            timeouts.push(rotation.attempt_timeout());
            rotation.record_failure(both[number % 2], after(1));
        }
        assert_eq!(timeouts[..3], [FIRST_ATTEMPT_TIMEOUT, FIRST_ATTEMPT_TIMEOUT, FIRST_ATTEMPT_TIMEOUT * 2]);
        assert_eq!(timeouts[99], MAX_ATTEMPT_TIMEOUT);
        rotation.record_answer(rotation.address());
        assert_eq!(rotation.attempt_timeout(), FIRST_ATTEMPT_TIMEOUT);
    }

    #[test]
    fn only_addresses_of_the_wanted_version_are_used() {
        let host = ResolvedHost::resolve("127.0.0.1", 1, Some(Family::V4)).unwrap();
        assert!(host.address().is_ipv4());
        let refusal = ResolvedHost::resolve("127.0.0.1", 1, Some(Family::V6)).unwrap_err();
        assert_eq!(refusal.to_string(), "the name has no address of IPv6");
    }

    #[test]
    fn a_name_is_looked_up_on_a_thread_and_an_address_never() {
        let host = ResolvedHost::resolve("localhost", 1, None).unwrap();
        assert!(host.is_named() && host.address().ip().is_loopback());
        for _ in 0..4 {
            host.record_failure(host.address(), clock::monotonic());
        }
        assert!(host.address().ip().is_loopback());
        let address = addresses(&["192.0.2.1:1"])[0];
        let host = ResolvedHost::from(address);
        host.record_failure(address, clock::monotonic());
        assert!(!host.is_named() && host.address() == address);
    }
}
