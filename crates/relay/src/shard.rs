use crate::batch::Batch;
use crate::config::{RelayConfig, Role};
use crate::ended::Ended;
use crate::entries::{Entries, Entry, FIRST_NUMBER};
use crate::far::Far;
use crate::listeners::{Arrival, Listeners};
use crate::near::Near;
use crate::plain;
use crate::report::{RelayStatus, Report};
use crate::resolver::Resolver;
use crate::slot::{Slot, discard};
use crate::{far_end, near_end};
use kumade_net::nftables::InstalledTable;
use kumade_net::readiness::{Event, Readiness};
use kumade_net::tcp::RtoLimits;
use kumade_net::{SetupError, clock, is_gone};
use kumade_noise_session::channel::{Acceptor, Initiator};
use kumade_packet_loop::{Shard, Wake};
use kumade_units::{Span, Time};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// All connections that one end relays.
pub(crate) struct RelayShard {
    end: End,
    listeners: Listeners,
    /// The rules that lead connections here, while this lives.
    _redirection: Option<InstalledTable>,
    entries: Entries,
    events: Vec<Event>,
    batch: Batch,
    /// When to look next at what takes too long.
    look_at: Time,
}

enum End {
    Near(Near),
    Far(Far),
}

/// The resolver's number in the set; listeners have the next ones.
const RESOLVER: u32 = 0;
const FIRST_LISTENER: u32 = 1;
const LOOK_INTERVAL: Span = Span::from_millis(250);
const IDLE_INTERVAL: Span = Span::from_secs(60);
/// Connections accepted in a turn, each with a handshake of some 200 µs.
const MAX_ACCEPTS: usize = 16;
/// Connections of a near end; further ones wait in the kernel's queue. The far end takes as many.
const MAX_CONNECTIONS: usize = 1000;

impl RelayShard {
    pub(crate) fn new(config: RelayConfig) -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("wait for TCP connections", error);
        let set = Readiness::new().map_err(failed)?;
        let (end, listeners, redirection) = open(config)?;
        listeners.watch(&set, FIRST_LISTENER).map_err(failed)?;
        if let End::Far(far) = &end {
            set.add_reader(&far.resolver, RESOLVER).map_err(failed)?;
        }
        let (entries, batch) = (Entries::new(set), Batch::new());
        Ok(RelayShard {
            end,
            listeners,
            _redirection: redirection,
            entries,
            events: Vec::new(),
            batch,
            look_at: Time::ZERO,
        })
    }

    pub(crate) fn status(&self) -> RelayStatus {
        let is_carried = |entry: &Entry| matches!(entry.slot, Slot::Carried(_));
        let connections = self.entries.iter().filter(|(_, entry)| is_carried(entry)).count();
        RelayStatus { connections, ..self.entries.status }
    }

    pub(crate) fn take_reports(&mut self) -> Vec<Report> {
        self.entries.reports.take()
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.addresses()
    }

    pub(crate) fn take_over(&mut self, stream: TcpStream, initiation: &[u8]) {
        if let End::Far(far) = &mut self.end {
            far_end::take_over(far, &mut self.entries, stream, initiation);
        }
    }

    fn happened(&mut self, event: &Event) {
        match (event.number, &mut self.end) {
            (RESOLVER, End::Far(far)) => {
                for answer in far.resolver.answers() {
                    far_end::resolved(far, &mut self.entries, answer);
                }
            }
            (FIRST_NUMBER.., _) => self.entries.happened(event),
            (listener, _) => self.accept(listener.saturating_sub(FIRST_LISTENER) as usize),
        }
    }

    fn accept(&mut self, place: usize) {
        let RelayShard { end, listeners, entries, .. } = self;
        for _ in 0..MAX_ACCEPTS {
            if matches!(end, End::Near(_)) && entries.len() >= MAX_CONNECTIONS {
                return listeners.pause(place, &entries.set);
            }
            match (listeners.accept(place, &entries.set), &mut *end) {
                (Some((stream, Arrival::Program(target))), End::Near(near)) => {
                    near_end::begin(near, entries, stream, target);
                }
                (Some((stream, Arrival::Stranger)), End::Far(_)) => far_end::greet(entries, stream),
                (Some(_), _) => {}
                (None, _) => return,
            }
        }
    }

    /// Goes on with a connection.
    fn advance(&mut self, number: u32) {
        let RelayShard { end, entries, .. } = self;
        let Some(entry) = entries.get_mut(number) else { return };
        match (&mut entry.slot, end) {
            (Slot::Carried(_), _) => self.carry(number),
            (Slot::Dialing(_), End::Near(near)) => near_end::advance(near, entries, number),
            (Slot::Stranger(_), End::Far(far)) => far_end::advance_stranger(far, entries, number),
            (Slot::Opening(_), End::Far(far)) => far_end::advance_opening(far, entries, number),
            (Slot::Leaving(stream), _) if discard(stream) => drop(entries.remove(number)),
            _ => {}
        }
    }

    fn carry(&mut self, number: u32) {
        let RelayShard { end, entries, batch, .. } = self;
        let Some(Entry { slot: Slot::Carried(carried), .. }) = entries.get_mut(number) else { return };
        let outcome = carried.run(batch);
        let (sent, received) = mem::take(&mut carried.bytes);
        entries.status.sent_bytes += sent;
        entries.status.received_bytes += received;
        match outcome {
            Ok(false) => {}
            Ok(true) => entries.look_at(number),
            Err(ended) => {
                let Some(Entry { slot: Slot::Carried(carried), .. }) = entries.remove(number) else { return };
                match (end, ended) {
                    (_, Ended::Complete) => carried.plain.close(),
                    (End::Near(near), ended) => {
                        if let Some(report) = near.report(&carried.target, &ended) {
                            entries.refuse(Some(report));
                        }
                    }
                    (End::Far(_), _) => {}
                }
            }
        }
    }

    /// A near end that has moved to another address has streams from which nothing comes any more: their programs are told.
    fn leave_behind(&mut self) {
        if let End::Far(_) = self.end {
            return;
        }
        let own = |entry: &Entry| Some(entry.slot.socket()?.local_addr().ok()?.ip());
        let mut by_address = BTreeMap::<_, Vec<_>>::new();
        for (number, entry) in self.entries.iter() {
            own(entry).into_iter().for_each(|own| by_address.entry(own).or_default().push(number));
        }
        let gone = by_address.into_iter().filter(|(own, _)| !own.is_unspecified() && is_gone(*own));
        for number in gone.flat_map(|(_, numbers)| numbers) {
            let left = self.entries.remove(number);
            // The kernel would try to end it for minutes.
            left.iter().filter_map(|entry| entry.slot.socket()).for_each(plain::reset_when_dropped);
        }
    }

    /// Gives up what takes too long.
    fn look(&mut self, now: Time) {
        self.listeners.resume(&self.entries.set, FIRST_LISTENER);
        let late: Vec<_> =
            self.entries.iter().filter(|(_, entry)| entry.deadline.is_some_and(|at| at <= now)).collect();
        let late: Vec<_> = late.into_iter().map(|(number, _)| number).collect();
        for number in late {
            let entry = self.entries.remove(number);
            if let (Some(Entry { slot: Slot::Dialing(_), .. }), End::Near(near)) = (entry, &self.end) {
                self.entries.refuse(Some(near.unreachable(&Ended::Timeout)));
            }
        }
        self.leave_behind();
        self.entries.carried_mut().for_each(|carried| carried.sealed.follow_round_trip());
        // An address that does not answer is left for the next one.
        let opening = self.entries.iter().filter(|(_, entry)| matches!(entry.slot, Slot::Opening(_)));
        let opening: Vec<_> = opening.map(|(number, _)| number).collect();
        opening.into_iter().for_each(|number| self.advance(number));
    }
}

impl Shard for RelayShard {
    type Error = SetupError;

    const SPIN: Span = Span::ZERO;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.entries.set.as_fd()]
    }

    fn turn(&mut self, _: Wake) -> Result<Time, SetupError> {
        let mut events = mem::take(&mut self.events);
        let waited = self.entries.set.wait(&mut events, Time::ZERO);
        waited.map_err(|error| SetupError::new("wait for TCP connections", error))?;
        events.iter().for_each(|event| self.happened(event));
        self.events = events;
        for number in self.entries.take_busy() {
            self.advance(number);
        }
        let now = clock::monotonic();
        if now >= self.look_at {
            self.look(now);
            self.look_at = now + LOOK_INTERVAL;
        }
        // Without any, nothing can take too long.
        let is_idle = self.entries.len() == 0 && !self.listeners.is_any_paused();
        let next_look = if is_idle { now + IDLE_INTERVAL } else { self.look_at };
        Ok(if self.entries.is_busy() { now } else { next_look })
    }
}

/// Linux delays acknowledgements of lone segments, such as those of a terminal, by this at least (`TCP_DELACK_MIN`): a timeout that
/// is shorter would take them for lost.
const DELAYED_ACKNOWLEDGEMENT: Span = Span::from_millis(40);

fn open(config: RelayConfig) -> Result<(End, Listeners, Option<InstalledTable>), SetupError> {
    let RelayConfig { identity, psk, rto, role } = config;
    let rto = RtoLimits { min: rto.min.map(|least| least.max(DELAYED_ACKNOWLEDGEMENT)), ..rto };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| SetupError::new("get random bytes for keys", io::Error::other(error.to_string())))?;
    let random = StdRng::from_seed(seed);
    match role {
        Role::Near { address, peer, congestion_control, forwards, redirect } => {
            let initiator = Initiator::new(identity, peer, psk);
            let near = Near { address, initiator, random, congestion_control, rto };
            let listeners = Listeners::of_near_end(forwards, redirect.as_ref())?;
            let table = redirect.map(|redirect| redirect.table(&listeners.redirected()));
            let installed = table.as_ref().map(InstalledTable::install).transpose()?;
            Ok((End::Near(near), listeners, installed))
        }
        Role::Far { listen, peers, allowed } => {
            let acceptor = Acceptor::new(identity, peers.into_iter().map(|peer| (peer, psk.clone())));
            let far = Far { acceptor, random, allowed, resolver: Resolver::new()?, rto };
            Ok((End::Far(far), Listeners::of_far_end(listen)?, None))
        }
    }
}
