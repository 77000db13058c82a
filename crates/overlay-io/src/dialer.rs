use kumade_multipath::PathId;
use kumade_net::SocketBinding;
use kumade_net::readiness::EpollSet;
use kumade_net::tcp::{self, PendingConnection};
use kumade_units::{Span, Time};
use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;

/// Opens the connections to a remote, and opens those again that end: each path has one. As long as datagrams carry packets in
/// their place, few are kept open.
pub(crate) struct Dialer {
    address: SocketAddr,
    binding: SocketBinding,
    /// Of the first path that it opens, and those after it.
    first_path: usize,
    attempts: Vec<Attempt>,
    /// So many are to be open in any case.
    standby_count: usize,
    /// So many are to be open now.
    wanted_count: usize,
    /// Whether connections carry packets, and since when that is so.
    use_since: (bool, Time),
    /// The address of this host towards the far end, as last looked at.
    source: Option<IpAddr>,
    /// It may be another one by now.
    is_source_unknown: bool,
    /// Until then connections are opened with short segments.
    short_segments_until: Option<Time>,
    /// What was said last of why not.
    last_reported: Option<String>,
}

#[derive(Debug)]
enum Attempt {
    /// It is not to be tried before, for the so-manieth time.
    Waiting {
        until: Time,
        tries: u32,
    },
    /// Since then.
    Opening {
        connecting: PendingConnection,
        since: Time,
        tries: u32,
    },
    Open {
        since: Time,
        tries: u32,
    },
}

/// Where a firewall drops what opens a connection, the kernel would go on for two minutes.
const CONNECT_TIMEOUT: Span = Span::from_secs(5);
const MIN_RETRY_DELAY: Span = Span::from_millis(200);
const MAX_RETRY_DELAY: Span = Span::from_secs(15);
/// A connection that has lasted for so long was none that is ended at once.
const MIN_LASTING_TIME: Span = Span::from_secs(5);
/// As many take over at once where datagrams fail, and tell that the far end has restarted; the others follow in a round trip.
const STANDBY_CONNECTIONS: usize = 2;
/// At the beginning, connections may be there before datagrams.
const OPEN_DELAY: Span = Span::from_millis(250);
const CLOSE_DELAY: Span = Span::from_secs(30);
/// As long as a path's MTU is believed to be small (PMTU_RAISE_TIMER of RFC 8899 §5.1.1).
const SHORT_SEGMENTS_DURATION: Span = Span::from_secs(600);
/// Of all connections that are being opened, in the set that they are waited for with.
pub(crate) const CONNECTING_NUMBER: u32 = 1;

impl Dialer {
    /// For paths of these numbers, from then on; those before them are carried by datagrams.
    pub(crate) fn new(address: SocketAddr, binding: SocketBinding, paths: Range<usize>, start: Time) -> Self {
        let (first, count) = (paths.start, paths.len());
        let paths = paths.map(|_| Attempt::Waiting { until: start, tries: 0 }).collect();
        let standby = if first > 0 { count.min(STANDBY_CONNECTIONS) } else { count };
        let source = binding.source_towards(address);
        Dialer {
            address,
            binding,
            first_path: first,
            attempts: paths,
            standby_count: standby,
            wanted_count: standby,
            use_since: (false, start),
            source,
            is_source_unknown: false,
            short_segments_until: None,
            last_reported: None,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The far end listens elsewhere from now on: all connections are opened anew.
    pub(crate) fn set_address(&mut self, address: SocketAddr, now: Time) {
        self.address = address;
        self.source = self.binding.source_towards(address);
        self.attempts.iter_mut().for_each(|attempt| *attempt = Attempt::Waiting { until: now, tries: 0 });
        self.last_reported = None;
    }

    /// Follows whether connections carry packets. Returns the paths whose connections are to be closed.
    pub(crate) fn update_use(&mut self, are_used: bool, now: Time) -> Vec<PathId> {
        if self.use_since.0 != are_used {
            self.use_since = (are_used, now);
        }
        match self.use_since {
            (true, since) if now - since >= OPEN_DELAY => self.wanted_count = self.attempts.len(),
            (false, since) if now - since >= CLOSE_DELAY => self.wanted_count = self.standby_count,
            _ => {}
        }
        let mut closed = Vec::new();
        for (path, attempt) in PathId::all().skip(self.first_path).zip(&mut self.attempts).skip(self.wanted_count) {
            if matches!(attempt, Attempt::Open { .. }) {
                closed.push(path);
            }
            *attempt = Attempt::Waiting { until: now, tries: 0 };
        }
        closed
    }

    /// Tries what is due; `readiness` reports when one has opened or failed. Returns connections that are open now, which are not in
    /// that set.
    pub(crate) fn advance_all(
        &mut self,
        now: Time,
        readiness: &EpollSet,
        prepare: impl Fn(&Socket) -> io::Result<()>,
    ) -> Vec<(PathId, TcpStream)> {
        let mut opened = Vec::new();
        for path in PathId::all().skip(self.first_path).take(self.wanted_count) {
            match self.advance_attempt(path, now, readiness, &prepare) {
                Ok(stream) => opened.extend(stream.map(|stream| (path, stream))),
                Err(error) => self.record_end(path, &error.to_string(), now),
            }
        }
        opened
    }

    fn advance_attempt(
        &mut self,
        path: PathId,
        now: Time,
        readiness: &EpollSet,
        prepare: &impl Fn(&Socket) -> io::Result<()>,
    ) -> io::Result<Option<TcpStream>> {
        let has_short_segments = self.short_segments_until.is_some_and(|until| now < until);
        let attempt = &mut self.attempts[path.index() - self.first_path];
        match attempt {
            Attempt::Waiting { until, tries } if *until <= now => {
                let tries = *tries;
                // Should that fail, it has been tried.
                *attempt = Attempt::Waiting { until: now, tries };
                let prepare = |socket: &Socket| {
                    prepare(socket)?;
                    if has_short_segments { tcp::limit_segments(socket) } else { Ok(()) }
                };
                let connecting = PendingConnection::begin_prepared(self.address, &self.binding, prepare)?;
                connecting.socket().map_or(Ok(()), |socket| readiness.add_writer(socket, CONNECTING_NUMBER))?;
                *attempt = Attempt::Opening { connecting, since: now, tries };
            }
            Attempt::Opening { connecting, since, tries } => {
                if let Some(stream) = connecting.wait(Time::ZERO)? {
                    readiness.remove(&stream)?;
                    let tries = *tries;
                    *attempt = Attempt::Open { since: now, tries };
                    return Ok(Some(stream));
                }
                if now - *since >= CONNECT_TIMEOUT {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
                }
            }
            Attempt::Waiting { .. } | Attempt::Open { .. } => {}
        }
        Ok(None)
    }

    /// Interfaces, addresses or routes have changed.
    pub(crate) fn record_system_change(&mut self) {
        self.is_source_unknown = true;
    }

    /// The address that a connection would have now; none where there is no route. If it is another than before, this host has moved,
    /// and what is not open is tried at once.
    pub(crate) fn check_source(&mut self, now: Time) -> Option<IpAddr> {
        if std::mem::take(&mut self.is_source_unknown) {
            let source = self.binding.source_towards(self.address);
            if source.is_some() && source != self.source {
                let not_open = self.attempts.iter_mut().filter(|attempt| !matches!(attempt, Attempt::Open { .. }));
                not_open.for_each(|attempt| *attempt = Attempt::Waiting { until: now, tries: 0 });
            }
            self.source = source;
        }
        self.source
    }

    /// The path does not pass long segments, or may not: connections are opened with short ones for a while. Returns whether that
    /// is new.
    pub(crate) fn use_short_segments(&mut self, now: Time) -> bool {
        let is_new = self.short_segments_until.is_none_or(|until| until <= now);
        self.short_segments_until = Some(now + SHORT_SEGMENTS_DURATION);
        is_new
    }

    /// The connection of a path is left for another one.
    pub(crate) fn retry(&mut self, path: PathId, now: Time) {
        let place = path.index().checked_sub(self.first_path);
        if let Some(attempt) = place.and_then(|place| self.attempts.get_mut(place)) {
            *attempt = Attempt::Waiting { until: now, tries: 0 };
        }
    }

    /// The connection of a path has ended, or was not to be had.
    pub(crate) fn record_end(&mut self, path: PathId, cause: &str, now: Time) {
        let place = path.index().checked_sub(self.first_path);
        let Some(attempt) = place.and_then(|place| self.attempts.get_mut(place)) else { return };
        let tries = match attempt {
            Attempt::Open { since, .. } if now - *since > MIN_LASTING_TIME => 0,
            Attempt::Waiting { tries, .. } | Attempt::Opening { tries, .. } | Attempt::Open { tries, .. } => *tries,
        };
        let pause = (MIN_RETRY_DELAY * (1 << tries.min(10))).min(MAX_RETRY_DELAY);
        *attempt = Attempt::Waiting { until: now + pause, tries: tries + 1 };
        if self.last_reported.as_deref() != Some(cause) {
            tracing::warn!("a connection to {}: {cause}; trying again", self.address);
            self.last_reported = Some(cause.to_owned());
        }
    }

    /// When to try again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let due = |attempt: &Attempt| match attempt {
            Attempt::Waiting { until, .. } => Some(*until),
            Attempt::Opening { since, .. } => Some(*since + CONNECT_TIMEOUT),
            Attempt::Open { .. } => None,
        };
        let attempts = self.attempts.iter().take(self.wanted_count).filter_map(due);
        let opening_all = self.use_since.1 + OPEN_DELAY;
        let opens_all = self.use_since.0 && self.wanted_count < self.attempts.len();
        attempts.chain(opens_all.then_some(opening_all)).min()
    }
}
