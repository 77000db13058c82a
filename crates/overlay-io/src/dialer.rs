use kumade_multipath::PathId;
use kumade_net::Binding;
use kumade_net::tcp::Connecting;
use kumade_units::{Span, Time};
use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;

/// Opens the connections to a remote, and opens those again that end: each path has one. As long as datagrams carry packets in
/// their place, few are kept open.
pub(crate) struct Dialer {
    address: SocketAddr,
    binding: Binding,
    /// Of the first path that it opens, and those after it.
    first: usize,
    paths: Vec<Attempt>,
    /// So many are to be open in any case.
    standby: usize,
    /// So many are to be open now.
    wanted: usize,
    /// Whether connections carry packets, and since when that is so.
    used: (bool, Time),
    /// The address of this host towards the far end, and when to look next.
    source: Option<IpAddr>,
    look_at: Time,
    /// What was said last of why not.
    reported: Option<String>,
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
        connecting: Connecting,
        since: Time,
        tries: u32,
    },
    Open {
        since: Time,
        tries: u32,
    },
}

/// Where a firewall drops what opens a connection, the kernel would go on for two minutes.
const PATIENCE: Span = Span::from_secs(5);
const MIN_PAUSE: Span = Span::from_millis(200);
const MAX_PAUSE: Span = Span::from_secs(15);
/// A connection that has lasted for so long was none that is ended at once.
const LASTING: Span = Span::from_secs(5);
/// As many take over at once where datagrams fail, and tell that the far end has restarted; the others follow in a round trip.
const STANDBY: usize = 2;
/// At the beginning, connections may be there before datagrams.
const OPEN_AFTER: Span = Span::from_millis(250);
const CLOSE_AFTER: Span = Span::from_secs(30);
const SOURCE_INTERVAL: Span = Span::from_millis(100);
const LOOK_INTERVAL: Span = Span::from_millis(5);

impl Dialer {
    /// For paths of these numbers, from then on; those before them are carried by datagrams.
    pub(crate) fn new(address: SocketAddr, binding: Binding, paths: Range<usize>, start: Time) -> Self {
        let (first, count) = (paths.start, paths.len());
        let paths = paths.map(|_| Attempt::Waiting { until: start, tries: 0 }).collect();
        let standby = if first > 0 { count.min(STANDBY) } else { count };
        let source = source(address, &binding);
        Dialer {
            address,
            binding,
            first,
            paths,
            standby,
            wanted: standby,
            used: (false, start),
            source,
            look_at: start,
            reported: None,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Follows whether connections carry packets. Returns the paths whose connections are to be closed.
    pub(crate) fn follow_use(&mut self, are_used: bool, now: Time) -> Vec<PathId> {
        if self.used.0 != are_used {
            self.used = (are_used, now);
        }
        match self.used {
            (true, since) if now - since >= OPEN_AFTER => self.wanted = self.paths.len(),
            (false, since) if now - since >= CLOSE_AFTER => self.wanted = self.standby,
            _ => {}
        }
        let mut closed = Vec::new();
        for (path, attempt) in PathId::all().skip(self.first).zip(&mut self.paths).skip(self.wanted) {
            if matches!(attempt, Attempt::Open { .. }) {
                closed.push(path);
            }
            *attempt = Attempt::Waiting { until: now, tries: 0 };
        }
        closed
    }

    /// Tries what is due. Returns connections that are open now.
    pub(crate) fn turn(&mut self, now: Time, prepare: impl Fn(&Socket) -> io::Result<()>) -> Vec<(PathId, TcpStream)> {
        let mut opened = Vec::new();
        for path in PathId::all().skip(self.first).take(self.wanted) {
            match self.advance(path, now, &prepare) {
                Ok(stream) => opened.extend(stream.map(|stream| (path, stream))),
                Err(error) => self.ended(path, &error.to_string(), now),
            }
        }
        opened
    }

    fn advance(
        &mut self,
        path: PathId,
        now: Time,
        prepare: &impl Fn(&Socket) -> io::Result<()>,
    ) -> io::Result<Option<TcpStream>> {
        let attempt = &mut self.paths[path.index() - self.first];
        match attempt {
            Attempt::Waiting { until, tries } if *until <= now => {
                let tries = *tries;
                // Should that fail, it has been tried.
                *attempt = Attempt::Waiting { until: now, tries };
                let connecting = Connecting::begin_prepared(self.address, &self.binding, prepare)?;
                *attempt = Attempt::Opening { connecting, since: now, tries };
            }
            Attempt::Opening { connecting, since, tries } => {
                if let Some(stream) = connecting.wait(Time::ZERO)? {
                    let tries = *tries;
                    *attempt = Attempt::Open { since: now, tries };
                    return Ok(Some(stream));
                }
                if now - *since > PATIENCE {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
                }
            }
            Attempt::Waiting { .. } | Attempt::Open { .. } => {}
        }
        Ok(None)
    }

    /// The address that a connection would have now; none where that was looked at a short time ago, or there is no route. If
    /// it is another than before, this host has moved, and what is not open is tried at once.
    pub(crate) fn new_source(&mut self, now: Time) -> Option<IpAddr> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + SOURCE_INTERVAL;
        let source = source(self.address, &self.binding);
        if source.is_some() && source != self.source {
            let not_open = self.paths.iter_mut().filter(|attempt| !matches!(attempt, Attempt::Open { .. }));
            not_open.for_each(|attempt| *attempt = Attempt::Waiting { until: now, tries: 0 });
        }
        self.source = source;
        source
    }

    /// The connection of a path is left for another one.
    pub(crate) fn again(&mut self, path: PathId, now: Time) {
        let place = path.index().checked_sub(self.first);
        if let Some(attempt) = place.and_then(|place| self.paths.get_mut(place)) {
            *attempt = Attempt::Waiting { until: now, tries: 0 };
        }
    }

    /// The connection of a path has ended, or was not to be had.
    pub(crate) fn ended(&mut self, path: PathId, cause: &str, now: Time) {
        let place = path.index().checked_sub(self.first);
        let Some(attempt) = place.and_then(|place| self.paths.get_mut(place)) else { return };
        let tries = match attempt {
            Attempt::Open { since, .. } if now - *since > LASTING => 0,
            Attempt::Waiting { tries, .. } | Attempt::Opening { tries, .. } | Attempt::Open { tries, .. } => *tries,
        };
        let pause = (MIN_PAUSE * (1 << tries.min(10))).min(MAX_PAUSE);
        *attempt = Attempt::Waiting { until: now + pause, tries: tries + 1 };
        if self.reported.as_deref() != Some(cause) {
            tracing::warn!("a connection to {}: {cause}; trying again", self.address);
            self.reported = Some(cause.to_owned());
        }
    }

    /// When to try again.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let due = |attempt: &Attempt| match attempt {
            Attempt::Waiting { until, .. } => Some(*until),
            Attempt::Opening { since, .. } => Some(*since + LOOK_INTERVAL),
            Attempt::Open { .. } => None,
        };
        self.paths.iter().take(self.wanted).filter_map(due).min()
    }
}

/// By the system's routes; nothing is sent.
fn source(far: SocketAddr, binding: &Binding) -> Option<IpAddr> {
    let socket = binding.connect_udp(far).ok()?;
    Some(socket.local_addr().ok()?.ip().to_canonical())
}
