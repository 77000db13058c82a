//! The thread that sends light probes to all targets, and receives their replies.

use super::session::{ProbeResult, ProbeSession, ReplyLimits};
use super::socket::{ProbeKind, ProbeSocket};
use super::target_address::TargetAddress;
use kumade_net::interface::Family;
use kumade_net::readiness::EpollSet;
use kumade_net::waker::{Waker, new_waker};
use kumade_net::{clock, readiness};
use kumade_planner::ProbeTimes;
use kumade_units::{Span, Time};
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A target of light probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedTarget {
    /// Name or address.
    pub host: String,
    /// UDP port of its reflector; means nothing to ICMP.
    pub port: u16,
    /// Which of its addresses are used; none for all.
    pub family: Option<Family>,
    /// How it is probed.
    pub kind: ProbeKind,
    /// Mean interval between probes.
    pub interval: Span,
    /// How long replies are waited for.
    pub limits: ReplyLimits,
}

/// What the prober tells of a target, by its place in the list.
#[derive(Debug, Clone)]
pub enum ProbeReport {
    /// Results of probes.
    Results {
        /// Which target.
        target: usize,
        /// What became of its probes.
        results: Vec<ProbeResult>,
        /// Further replies to probes that had been answered.
        duplicates: u64,
    },
    /// What is seen of single probes beside results, for alerts: those whose replies are late, those that cannot be sent, and those that
    /// are sent to see whether others are lost by chance. These have no results, so that they bias no figure.
    Seen {
        /// Which target.
        target: usize,
        /// When a probe was sent, by the monotonic clock, and whether it was answered.
        probes: Vec<(Time, bool)>,
    },
    /// Its probes go to this address from now on.
    Address {
        /// Which target.
        target: usize,
        /// The address.
        address: SocketAddr,
    },
    /// No probe could be sent, for this reason; said once until one can.
    NotSent {
        /// Which target.
        target: usize,
        /// The reason.
        reason: String,
    },
}

/// Probes until it is dropped.
#[derive(Debug)]
pub struct Prober {
    stop: Arc<AtomicBool>,
    waker: Waker,
    /// Returns none where it has ended by itself.
    thread: Option<JoinHandle<Option<ProberRun>>>,
}

/// A prober that sends and reports nothing. Replies that come meanwhile wait, with the kernel's stamps.
pub struct PausedProber(ProberRun);

/// The number of what wakes the thread among those of sockets, which have their targets' places.
const WAKER_NUMBER: u32 = u32::MAX;
/// A probe may be sent so long after it is due, together with others, and replies that the kernel has stamped may wait as long: to wake
/// up takes ten times what a probe does …
const MAX_BATCHING: Span = Span::from_millis(100);
/// … and such a part of the shortest interval: times stay random.
const BATCHINGS_PER_INTERVAL: i64 = 10;
/// Probes that are sent together at most: they take a link no longer than one full packet of a transfer does.
const MAX_BATCH: usize = 20;
/// Reports wait for others so long: whoever is told is woken up as well.
const MAX_REPORT_DELAY: Span = Span::from_millis(500);
/// Lost probes in a row after which another address of the name is tried.
const MAX_LOST_IN_A_ROW: u32 = 3;
/// Probes that are sent after one whose reply is late, until one is answered …
const MAX_CONFIRMATIONS: u32 = 12;
/// … and how many in an interval: in a few intervals there is enough evidence for an alert, or none.
const CONFIRMATIONS_PER_INTERVAL: i64 = 3;
/// Between looks at the error of this host's clock.
const CLOCK_CHECK_INTERVAL: Span = Span::from_secs(16);

impl Prober {
    /// Starts to probe. `report` is called on the prober's thread.
    ///
    /// # Errors
    /// The system has no thread or epoll for it.
    pub fn start(
        targets: Vec<ProbedTarget>,
        seed: u64,
        report: impl FnMut(ProbeReport) + Send + 'static,
    ) -> io::Result<Self> {
        Prober::spawn(ProberRun::new(targets, seed, Box::new(report))?)
    }

    /// Stops it for a moment. None where it has ended by a fault, which has been reported.
    pub fn pause(mut self) -> Option<PausedProber> {
        self.request_end();
        Some(PausedProber(self.thread.take()?.join().ok()??))
    }

    fn spawn(mut run: ProberRun) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (waker, wake_receiver) = new_waker()?;
        run.sockets.add_reader(&wake_receiver, WAKER_NUMBER)?;
        let work = move || {
            let _wake_receiver = wake_receiver;
            while !stopped.load(Ordering::Relaxed) {
                if let Err(error) = run.advance() {
                    tracing::error!("light probes: {error}");
                    run.tell_all();
                    return None;
                }
            }
            run.tell_all();
            Some(run)
        };
        let thread = thread::Builder::new().name("probes".into()).spawn(work)?;
        Ok(Prober { stop, waker, thread: Some(thread) })
    }

    fn request_end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}

impl PausedProber {
    /// Goes on with these targets. One that has a place in the list before, and is the same, keeps its socket and the probes that are
    /// under way.
    ///
    /// # Errors
    /// The system has no thread or epoll for it.
    pub fn resume(mut self, targets: Vec<(Option<usize>, ProbedTarget)>) -> io::Result<Prober> {
        self.0.replace_targets(targets)?;
        Prober::spawn(self.0)
    }
}

impl fmt::Debug for PausedProber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PausedProber").field("targets", &self.0.targets.len()).finish_non_exhaustive()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.request_end();
        // A panic there has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}

/// Takes reports.
type Reporter = Box<dyn FnMut(ProbeReport) + Send>;
type Reports = Vec<ProbeReport>;

struct ProberRun {
    seed: u64,
    targets: Vec<TargetRun>,
    /// When each target has something to do next, by its place.
    timers: BTreeSet<(Time, usize)>,
    sockets: EpollSet,
    batching: Span,
    report: Reporter,
    /// What is to be told.
    reports: Reports,
    /// Since when.
    reporting_since: Option<Time>,
    clock_error: Option<Span>,
    next_clock_check: Time,
}

struct TargetRun {
    place: usize,
    target: ProbedTarget,
    session: ProbeSession,
    times: ProbeTimes,
    address: TargetAddress,
    socket: Option<(SocketAddr, ProbeSocket)>,
    lost_in_a_row: u32,
    /// What was said last, until a probe can be sent again.
    reason_not_sent: Option<String>,
    confirmation: Option<Confirmation>,
    /// The numbers of probes that have no results.
    unrecorded: BTreeSet<u64>,
}

/// Probes that are sent to see whether others are lost by chance.
#[derive(Debug, Clone, Copy)]
struct Confirmation {
    next: Time,
    left: u32,
}

impl ProberRun {
    fn new(targets: Vec<ProbedTarget>, seed: u64, report: Reporter) -> io::Result<Self> {
        let mut run = ProberRun {
            seed,
            targets: Vec::new(),
            timers: BTreeSet::new(),
            sockets: EpollSet::new()?,
            batching: Span::ZERO,
            report,
            reports: Vec::new(),
            reporting_since: None,
            clock_error: None,
            next_clock_check: clock::monotonic(),
        };
        run.replace_targets(targets.into_iter().map(|target| (None, target)).collect())?;
        Ok(run)
    }

    /// With the place that each has so far, if it has one.
    fn replace_targets(&mut self, targets: Vec<(Option<usize>, ProbedTarget)>) -> io::Result<()> {
        let (now, seed) = (clock::monotonic(), self.seed);
        // Sockets are known to it by their places.
        let sockets = EpollSet::new()?;
        let mut before: Vec<_> = mem::take(&mut self.targets).into_iter().map(Some).collect();
        for (place, (known, target)) in targets.into_iter().enumerate() {
            let known = known.and_then(|known| before.get_mut(known)?.take_if(|run| run.target == target));
            let run = known.map_or_else(|| TargetRun::new(place, target, seed, now), |run| TargetRun { place, ..run });
            if let Some((_, socket)) = &run.socket {
                sockets.add_reader(socket, place as u32)?;
            }
            self.targets.push(run);
        }
        self.timers = self.targets.iter().map(|target| (target.next_timer(), target.place)).collect();
        self.sockets = sockets;
        let shortest = self.targets.iter().map(|run| run.target.interval).min();
        self.batching = shortest.map_or(Span::ZERO, |interval| (interval / BATCHINGS_PER_INTERVAL).min(MAX_BATCHING));
        Ok(())
    }

    /// Sends what is due, waits for replies or the next probe, and reports.
    fn advance(&mut self) -> io::Result<()> {
        let now = clock::monotonic();
        if now >= self.next_clock_check {
            self.clock_error = clock::maximum_error();
            self.next_clock_check = now + CLOCK_CHECK_INTERVAL;
        }
        // Of replies that come, the kernel tells when.
        let (mut has_sent, mut are_stamped) = (false, true);
        while let Some((_, place)) = self.timers.first().copied().filter(|(time, _)| *time <= now) {
            self.timers.pop_first();
            let target = &mut self.targets[place];
            target.session.expire(now);
            let sequence = target.session.next_sequence();
            if now >= target.times.next_time() {
                target.times.advance(now);
                target.send_probe(&self.sockets, self.clock_error, &mut self.reports);
            }
            target.confirm_losses(&self.sockets, self.clock_error, &mut self.reports, now);
            target.report_results(&mut self.reports, now);
            if target.session.next_sequence() > sequence {
                has_sent = true;
                are_stamped &= target.socket.as_ref().is_some_and(|(_, socket)| socket.are_replies_stamped());
            }
            self.timers.insert((target.next_timer(), place));
        }
        let deadline = self.next_round();
        self.tell(now, deadline);
        if has_sent && are_stamped {
            thread::sleep((deadline.min(now + self.batching) - clock::monotonic()).max(Span::ZERO).to_duration());
        }
        let mut events: Vec<readiness::Event> = Vec::new();
        self.sockets.wait(&mut events, deadline)?;
        for event in events {
            let Some(target) = self.targets.get_mut(event.number as usize) else { continue };
            target.receive(self.clock_error);
            target.report_results(&mut self.reports, clock::monotonic());
        }
        Ok(())
    }

    fn next_round(&self) -> Time {
        round_time(self.timers.iter().map(|(time, _)| *time), self.batching)
    }

    /// Tells what there is, unless it can wait for the next round.
    fn tell(&mut self, now: Time, next_round: Time) {
        if self.reports.is_empty() {
            return;
        }
        let since = *self.reporting_since.get_or_insert(now);
        if next_round - since >= MAX_REPORT_DELAY {
            self.tell_all();
        }
    }

    fn tell_all(&mut self) {
        self.reporting_since = None;
        self.reports.drain(..).for_each(&mut self.report);
    }
}

/// When the timer that is due first has waited for others, or they are enough; `times` are in order.
fn round_time(mut times: impl Iterator<Item = Time>, batching: Span) -> Time {
    let first = times.next().map(|first| first + batching);
    first.into_iter().chain(times.nth(MAX_BATCH - 2)).min().unwrap_or(Time::MAX)
}

impl TargetRun {
    fn new(place: usize, target: ProbedTarget, seed: u64, now: Time) -> Self {
        TargetRun {
            place,
            session: ProbeSession::new(target.limits),
            times: ProbeTimes::new(seed ^ place as u64, target.interval, now),
            address: TargetAddress::new(&target.host, target.port, target.family),
            socket: None,
            lost_in_a_row: 0,
            reason_not_sent: None,
            confirmation: None,
            unrecorded: BTreeSet::new(),
            target,
        }
    }

    /// The next probe, or one that is lost then; a timer that is too early does no harm.
    fn next_timer(&self) -> Time {
        let confirmation = self.confirmation.filter(|confirmation| confirmation.left > 0).map(|one| one.next);
        let others = [self.session.next_expiry(), self.session.next_overdue(), confirmation];
        others.into_iter().flatten().fold(self.times.next_time(), Time::min)
    }

    /// Tells of probes whose replies are late, and sends some more at a higher rate, until one is answered.
    fn confirm_losses(&mut self, sockets: &EpollSet, clock_error: Option<Span>, reports: &mut Reports, now: Time) {
        let overdue = self.session.take_overdue(now);
        if !overdue.is_empty() {
            self.confirmation.get_or_insert(Confirmation { next: now, left: MAX_CONFIRMATIONS });
            let probes = overdue.into_iter().map(|sent| (sent, false)).collect();
            reports.push(ProbeReport::Seen { target: self.place, probes });
        }
        if let Some(confirmation) = self.confirmation.as_mut().filter(|one| one.left > 0 && now >= one.next) {
            confirmation.left -= 1;
            confirmation.next = now + self.target.interval / CONFIRMATIONS_PER_INTERVAL;
            let sequence = self.session.next_sequence();
            self.send_probe(sockets, clock_error, reports);
            if self.session.next_sequence() > sequence {
                self.unrecorded.insert(sequence);
            }
        }
    }

    /// Tells of probes that are not recorded, and takes them out of the results.
    fn report_unrecorded(&mut self, results: &mut Vec<ProbeResult>, reports: &mut Reports) {
        if results.iter().any(|result| result.reply.is_ok()) {
            self.confirmation = None;
        }
        let unrecorded: Vec<_> = results.extract_if(.., |result| self.unrecorded.remove(&result.sequence)).collect();
        if !unrecorded.is_empty() {
            let probes = unrecorded.iter().map(|result| (result.sent, result.reply.is_ok())).collect();
            reports.push(ProbeReport::Seen { target: self.place, probes });
        }
    }

    fn send_probe(&mut self, sockets: &EpollSet, clock_error: Option<Span>, reports: &mut Reports) {
        let sent = self.connect(sockets, reports).and_then(|is_connected| match &mut self.socket {
            Some((_, socket)) if is_connected => {
                let sent = socket.send(&mut self.session, clock_error);
                if sent.is_err() {
                    // As good as lost.
                    let now = clock::monotonic();
                    self.confirmation.get_or_insert(Confirmation { next: now, left: MAX_CONFIRMATIONS });
                    reports.push(ProbeReport::Seen { target: self.place, probes: vec![(now, false)] });
                }
                sent.map(|()| true).map_err(|error| format!("cannot send to {}: {error}", self.target.host))
            }
            _ => Ok(false),
        });
        match sent {
            Ok(true) => self.reason_not_sent = None,
            Ok(false) => {}
            Err(reason) if self.reason_not_sent.as_ref() == Some(&reason) => {}
            Err(reason) => {
                self.reason_not_sent = Some(reason.clone());
                reports.push(ProbeReport::NotSent { target: self.place, reason });
            }
        }
    }

    /// Has a socket to the target's present address; false where that is not known yet.
    fn connect(&mut self, sockets: &EpollSet, reports: &mut Reports) -> Result<bool, String> {
        let Some(address) = self.address.resolve(clock::monotonic())? else { return Ok(false) };
        if self.socket.as_ref().is_some_and(|(current, _)| *current == address) {
            return Ok(true);
        }
        // Closing it takes it out of the set.
        self.socket = None;
        let failed = |error: io::Error| format!("cannot probe {address}: {error}{}", self.hint(&error));
        let socket = ProbeSocket::connect(address, &self.target.kind, self.session.next_sequence()).map_err(failed)?;
        sockets
            .add_reader(&socket, self.place as u32)
            .map_err(|error| format!("cannot wait for {address}: {error}"))?;
        self.socket = Some((address, socket));
        reports.push(ProbeReport::Address { target: self.place, address });
        Ok(true)
    }

    fn hint(&self, error: &io::Error) -> &'static str {
        match (&self.target.kind, error.kind()) {
            (ProbeKind::Echo, io::ErrorKind::PermissionDenied) => {
                "; ICMP echo takes CAP_NET_RAW, or this process's group within net.ipv4.ping_group_range"
            }
            _ => "",
        }
    }

    fn receive(&mut self, clock_error: Option<Span>) {
        // An ICMP error means that a probe is lost, which is found anyway.
        if let Some((address, socket)) = &mut self.socket
            && let Err(error) = socket.receive(&mut self.session, clock_error)
        {
            tracing::debug!("{address}: {error}");
        }
    }

    fn report_results(&mut self, reports: &mut Reports, now: Time) {
        let (mut results, duplicates) = (self.session.take_results(), self.session.take_duplicates());
        self.report_unrecorded(&mut results, reports);
        if results.is_empty() && duplicates == 0 {
            return;
        }
        for result in &results {
            self.lost_in_a_row = if result.reply.is_ok() { 0 } else { self.lost_in_a_row + 1 };
        }
        if let Some((address, _)) = &self.socket {
            if results.iter().any(|result| result.reply.is_ok()) {
                self.address.record(*address, true, now);
            } else if self.lost_in_a_row >= MAX_LOST_IN_A_ROW {
                self.lost_in_a_row = 0;
                self.address.record(*address, false, now);
            }
        }
        reports.push(ProbeReport::Results { target: self.place, results, duplicates });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_wait_for_others_until_they_are_a_batch() {
        let after = |millis| Time::ZERO + Span::from_millis(millis);
        let round = |count: i64, interval| {
            let times = (1..=count).map(|number| after(number * interval));
            round_time(times, Span::from_millis(50))
        };
        assert_eq!(round(0, 1), Time::MAX);
        assert_eq!(round(1, 100), after(150));
        // The first has waited for long enough; there are enough of them.
        assert_eq!(round(1000, 10), after(60));
        assert_eq!(round(1000, 2), after(2 * MAX_BATCH as i64));
        assert_eq!(round(MAX_BATCH as i64 - 1, 2), after(52));
    }
}
