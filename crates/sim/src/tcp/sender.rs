use super::congestion::{Ack, Controller};
use super::delivery::Delivery;
use super::recovery::{Phase, RateReduction, Undo};
use super::reordering::Reordering;
use super::scoreboard::{Fate, Scoreboard, Segment};
use super::timers::{RoundTrips, Timer};
use super::{Acknowledgement, Data};
use units::{Span, Time};

/// How a sender behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderConfig {
    /// IP bytes of a segment with its headers: what the pacing counts.
    pub packet_bytes: u32,
    /// How many segments there are to send.
    pub segments: u32,
    /// The receiver's window in segments.
    pub receive_window: u32,
}

/// What a sender did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderStatistics {
    /// Segments sent, those sent again included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// How often the retransmission timer ran out.
    pub timeouts: u64,
    /// Probes for a loss at the tail.
    pub probes: u64,
    /// How often the window was reduced.
    pub reductions: u64,
    /// Recoveries and timeouts that turned out to be uncalled for.
    pub undone: u64,
}

/// The end that sends. Tell it of every [`Acknowledgement`] and call [`Sender::on_time`] at [`Sender::next_time`]; after
/// either, and at the start, call [`Sender::poll_send`] until it gives nothing.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    controller: Box<dyn Controller>,
    board: Scoreboard,
    trips: RoundTrips,
    reordering: Reordering,
    delivery: Delivery,
    phase: Phase,
    /// What was next when the phase began: it ends when that is reached.
    point: u32,
    reduction: RateReduction,
    /// What may be in flight while the window shrinks.
    reduced_window: u32,
    undo: Option<Undo>,
    timer: Option<(Time, Timer)>,
    probe: Option<Probe>,
    /// Sent whatever the window says: a probe, or what a timeout sends again.
    forced: Option<Forced>,
    usage: Usage,
    /// The next segment may leave then, if the controller paces.
    release: Time,
    /// Only the pace holds it back.
    paced: bool,
    /// The next new segment says that the window was reduced for a mark.
    announce_reduction: bool,
    timed_out_at: Option<u32>,
    statistics: SenderStatistics,
}

/// A probe whose fate is open.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// What was next after it.
    end: u32,
    /// Whether it sent something again.
    again: bool,
}

#[derive(Debug, Clone, Copy)]
enum Forced {
    New,
    Again(u32),
}

/// Whether the window is what limits the sender (RFC 7661; `tcp_cwnd_validate` in Linux).
#[derive(Debug, Default)]
struct Usage {
    limited: bool,
    most_outstanding: u32,
    until: u32,
}

/// What one acknowledgement brought.
#[derive(Debug, Default)]
struct News {
    acked: u32,
    delivered: u32,
    lost: u32,
    was_in_flight: u32,
    /// The one sent last of what was delivered.
    newest: Option<Segment>,
    /// The earliest and the latest sending of what was sent once.
    first_sent: Option<Time>,
    last_sent: Option<Time>,
    /// Something arrived twice.
    duplicate: bool,
    /// What it acknowledges was sent before anything was sent again: it was not lost.
    late_original: bool,
}

impl Sender {
    /// A sender with all its segments to send.
    pub fn new(config: SenderConfig, controller: Box<dyn Controller>) -> Self {
        Sender {
            config,
            controller,
            board: Scoreboard::default(),
            trips: RoundTrips::default(),
            reordering: Reordering::new(),
            delivery: Delivery::new(),
            phase: Phase::Open,
            point: 0,
            reduction: RateReduction::default(),
            reduced_window: 0,
            undo: None,
            timer: None,
            probe: None,
            forced: None,
            usage: Usage::default(),
            release: Time::ZERO,
            paced: false,
            announce_reduction: false,
            timed_out_at: None,
            statistics: SenderStatistics::default(),
        }
    }

    /// Sends nothing new any more; what is lost is still sent again.
    pub fn stop(&mut self) {
        self.config.segments = self.config.segments.min(self.board.next());
    }

    /// Whether all is acknowledged.
    pub fn finished(&self) -> bool {
        self.board.first() >= self.config.segments
    }

    /// What it did.
    pub fn statistics(&self) -> &SenderStatistics {
        &self.statistics
    }

    /// The smoothed round-trip time, once there was one.
    pub fn smoothed_round_trip(&self) -> Option<Span> {
        self.trips.smoothed()
    }

    /// Segments that may be in flight now.
    pub fn window(&self) -> u32 {
        match self.phase {
            Phase::Reducing | Phase::Recovering if !self.controller.steers_recovery() => self.reduced_window,
            _ => (self.controller.window() as u32).max(1),
        }
    }

    /// Segments believed to be on their way.
    pub fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// When to call [`Sender::on_time`].
    pub fn next_time(&self) -> Option<Time> {
        let release = self.paced.then_some(self.release);
        self.timer.map(|(time, _)| time).into_iter().chain(release).min()
    }

    /// The segment to send now, if any.
    pub fn poll_send(&mut self, now: Time) -> Option<Data> {
        self.paced = false;
        if let Some(forced) = self.forced.take() {
            return Some(match forced {
                Forced::New => self.send_new(now),
                Forced::Again(number) => self.send_again(number, now),
            });
        }
        let open = self.board.in_flight() < self.window();
        let lost = self.board.lost() > 0;
        if !open || !(lost || self.may_send_new()) {
            self.usage.note(!open, &self.board);
            return None;
        }
        if self.release > now {
            self.paced = true;
            return None;
        }
        match self.board.next_lost() {
            Some(number) => Some(self.send_again(number, now)),
            None => Some(self.send_new(now)),
        }
    }

    /// Takes an acknowledgement. One that makes no sense changes nothing.
    pub fn acknowledge(&mut self, ack: &Acknowledgement, now: Time) {
        if ack.next > self.board.next() {
            return;
        }
        let delivered_before = self.delivery.total;
        let mut news = self.take_news(ack);
        self.measure(ack, &news, now);
        let since = news.newest.map(|newest| newest.delivered);
        self.reordering.adapt(self.delivery.total, since);
        self.judge_probe(ack, &news, now);
        self.react(ack, &mut news, now);
        if news.delivered > 0 {
            self.tell_controller(&news, now);
        }
        if matches!(self.phase, Phase::Reducing | Phase::Recovering) && self.delivery.total > delivered_before {
            let progress = news.acked > 0 && news.lost == 0;
            self.reduce(news.delivered, progress);
        }
        if news.delivered > 0 || self.timer.is_none() {
            self.set_timer(now);
        }
    }

    /// Does what is due.
    pub fn on_time(&mut self, now: Time) {
        let Some((_, timer)) = self.timer.filter(|(time, _)| *time <= now) else { return };
        self.timer = None;
        match timer {
            Timer::Reordering => {
                let lost = self.detect_losses(now);
                if lost > 0 && self.phase != Phase::Recovering {
                    self.enter_recovery(now);
                    self.reduce(1, false);
                }
                self.set_timer(now);
            }
            Timer::Probe => self.probe(now),
            Timer::Retransmission => self.time_out(now),
        }
    }

    fn may_send_new(&self) -> bool {
        self.board.next() < self.config.segments && self.board.outstanding() < self.config.receive_window
    }

    /// A segment as it is sent now.
    fn template(&mut self, now: Time) -> Segment {
        if self.board.in_flight() == 0 {
            self.delivery.begin_flight(now);
        }
        Segment {
            sent: now,
            order: self.statistics.sent,
            first_sent: self.delivery.first_sent,
            delivered: self.delivery.total,
            delivered_at: self.delivery.time,
            fate: Fate::InFlight,
            again: false,
        }
    }

    fn send_new(&mut self, now: Time) -> Data {
        let template = self.template(now);
        let number = self.board.push(template);
        self.note_sent(now);
        if self.timer.is_none_or(|(_, timer)| timer == Timer::Probe) {
            self.set_timer(now);
        }
        let reduced = std::mem::take(&mut self.announce_reduction);
        Data { number, stamp: now, again: false, last: number + 1 == self.config.segments, reduced }
    }

    fn send_again(&mut self, number: u32, now: Time) -> Data {
        let template = self.template(now);
        self.board.send_again(number, template);
        self.note_sent(now);
        self.statistics.retransmissions += 1;
        if let Some(undo) = &mut self.undo {
            undo.sent_again(now);
        }
        if number == self.board.first() && self.timer.is_none_or(|(_, timer)| timer == Timer::Retransmission) {
            self.timer = Some((now + self.trips.timeout(), Timer::Retransmission));
        }
        Data { number, stamp: now, again: true, last: number + 1 == self.config.segments, reduced: false }
    }

    fn note_sent(&mut self, now: Time) {
        self.statistics.sent += 1;
        if matches!(self.phase, Phase::Reducing | Phase::Recovering) {
            self.reduction.sent();
        }
        if let Some(rate) = self.controller.pacing_rate() {
            let gap = rate.time_for(self.config.packet_bytes.into()).min(Span::from_secs(1));
            self.release = self.release.max(now) + gap;
        }
    }

    /// Enters an acknowledgement into the scoreboard.
    fn take_news(&mut self, ack: &Acknowledgement) -> News {
        let mut news = News { was_in_flight: self.board.in_flight(), ..News::default() };
        let (first, arrived_end) = (self.board.first(), self.board.arrived_end());
        let reordering = &mut self.reordering;
        let mut delivered = |number: u32, segment: Segment, echo: Option<Time>| {
            news.deliver(segment, echo);
            if !segment.again && number < arrived_end {
                reordering.overtaken_by(arrived_end - number);
            }
        };
        self.board.acknowledge(ack.next, |number, segment| delivered(number, segment, Some(ack.echo)));
        for block in ack.blocks.iter().skip(usize::from(ack.duplicate)).filter(|block| !block.is_empty()) {
            self.board.selective(*block, |number, segment| delivered(number, segment, None));
        }
        news.acked = self.board.first() - first;
        news.late_original = news.acked > 0 && self.answered_first(ack);
        if news.late_original && arrived_end > first {
            self.reordering.overtaken_by(arrived_end - first);
        }
        self.delivery.total += u64::from(news.delivered);
        if ack.duplicate {
            news.duplicate = true;
            if self.probe.is_none() {
                self.reordering.duplicated();
            }
            if let Some(undo) = &mut self.undo {
                undo.duplicated(ack.blocks[0].start);
            }
        }
        news
    }

    /// Karn's rule: what was sent again is measured by the echoed stamp alone (RFC 7323).
    fn measure(&mut self, ack: &Acknowledgement, news: &News, now: Time) {
        let sent = news.first_sent.or((news.acked > 0).then_some(ack.echo));
        if let Some(sent) = sent.filter(|sent| *sent <= now) {
            self.trips.measured(now - sent);
        }
        if let Some(newest) = &news.newest {
            self.reordering.arrived(newest, now, self.trips.least());
        }
    }

    /// RFC 8985, section 7.4.
    fn judge_probe(&mut self, ack: &Acknowledgement, news: &News, now: Time) {
        let Some(probe) = self.probe.filter(|probe| ack.next >= probe.end) else { return };
        let pure_duplicate = news.acked == 0 && news.delivered == 0;
        if !probe.again || news.duplicate || pure_duplicate {
            self.probe = None;
        } else if ack.next > probe.end {
            // What the probe repaired was lost: that asks for a reduction, but nothing is left to recover.
            self.begin_reduction(now);
            self.phase = Phase::Open;
            self.undo = None;
            self.controller.recovered(now);
        }
    }

    fn react(&mut self, ack: &Acknowledgement, news: &mut News, now: Time) {
        self.leave_phase(news, now);
        let in_vain = news.late_original
            && match self.phase {
                Phase::Recovering => self.board.again() == 0,
                Phase::TimedOut => true,
                Phase::Open | Phase::Reducing => false,
            };
        if in_vain || self.undo.as_ref().is_some_and(Undo::all_duplicated) {
            self.undo(now);
        }
        let again = self.board.again();
        news.lost = self.detect_losses(now);
        // After a timeout only the loss of what was sent again asks for more.
        let anew = self.phase != Phase::TimedOut || self.board.again() < again;
        if self.phase != Phase::Recovering && self.board.lost() > 0 && anew {
            self.enter_recovery(now);
        } else if ack.congestion && self.phase == Phase::Open {
            self.begin_reduction(now);
            self.phase = Phase::Reducing;
            self.undo = None;
            self.announce_reduction = true;
        }
    }

    /// Ends a phase when what was in flight at its beginning is acknowledged.
    fn leave_phase(&mut self, news: &News, now: Time) {
        let first = self.board.first();
        let over = match self.phase {
            Phase::Open => false,
            Phase::Reducing => first > self.point,
            Phase::Recovering | Phase::TimedOut => first >= self.point,
        };
        if !over {
            return;
        }
        self.timed_out_at = None;
        if self.phase == Phase::Recovering {
            self.reordering.recovery_ended();
        }
        if news.late_original {
            self.undo(now);
        } else {
            self.controller.recovered(now);
            self.phase = Phase::Open;
        }
    }

    fn answered_first(&self, ack: &Acknowledgement) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.answered_first(ack.echo))
    }

    fn undo(&mut self, now: Time) {
        self.board.restore();
        self.controller.undone(now);
        self.undo = None;
        self.phase = Phase::Open;
        self.statistics.undone += 1;
    }

    /// RFC 8985, section 6.2, step 5: how many are newly taken for lost.
    fn detect_losses(&mut self, now: Time) -> u32 {
        let window = self.reordering_window();
        let before = self.board.lost();
        let reordering = &self.reordering;
        let late = |segment: &Segment| reordering.deadline(segment, window).is_some_and(|deadline| deadline <= now);
        self.board.take_for_lost(|_, segment| late(segment));
        self.board.lost() - before
    }

    fn reordering_window(&self) -> Span {
        let recovering = matches!(self.phase, Phase::Recovering | Phase::TimedOut);
        let least = self.trips.least().unwrap_or(Span::ZERO);
        let smoothed = self.trips.smoothed().unwrap_or(Span::ZERO);
        self.reordering.window(recovering, self.board.arrived(), least, smoothed)
    }

    fn begin_reduction(&mut self, now: Time) {
        self.reduced_window = self.window();
        self.reduction = RateReduction::begin(self.reduced_window);
        self.controller.congested(now, self.board.in_flight());
        self.point = self.board.next();
        self.probe = None;
        self.statistics.reductions += 1;
    }

    fn enter_recovery(&mut self, now: Time) {
        self.undo = Some(Undo::new(self.board.first(), self.board.again()));
        if self.phase != Phase::Reducing {
            self.begin_reduction(now);
        }
        self.phase = Phase::Recovering;
    }

    fn reduce(&mut self, delivered: u32, progress: bool) {
        let threshold = self.controller.threshold().max(1.0) as u32;
        self.reduced_window = self.reduction.window(threshold, self.board.in_flight(), delivered, progress);
    }

    fn tell_controller(&mut self, news: &News, now: Time) {
        let least = self.trips.least().unwrap_or(Span::ZERO);
        let packet_bytes = self.config.packet_bytes;
        let delivery = news.newest.and_then(|newest| self.delivery.sample(&newest, now, least, packet_bytes));
        let slow_start = self.controller.window() < self.controller.threshold();
        let ack = Ack {
            now,
            acked: news.acked,
            delivered: news.delivered,
            lost: news.lost,
            round_trip: news.last_sent.map(|sent| now - sent),
            smoothed_round_trip: self.trips.smoothed().unwrap_or(Span::ZERO),
            in_flight: self.board.in_flight(),
            was_in_flight: news.was_in_flight,
            window_limited: self.usage.limits(slow_start, self.controller.window()),
            recovering: matches!(self.phase, Phase::Reducing | Phase::Recovering),
            delivery,
            total_delivered: self.delivery.total,
            delivered_when_sent: news.newest.map_or(0, |newest| newest.delivered),
        };
        self.controller.acknowledged(&ack);
    }

    /// Arms the timer for what is to be expected next.
    fn set_timer(&mut self, now: Time) {
        let Some(head_sent) = self.board.head_sent() else {
            self.timer = None;
            return;
        };
        let window = self.reordering_window();
        let earliest = self.board.take_for_lost(|_, _| false);
        let deadline = earliest.and_then(|segment| self.reordering.deadline(&segment, window));
        if let Some(deadline) = deadline {
            self.timer = Some((deadline.max(now), Timer::Reordering));
            return;
        }
        let timeout_at = (head_sent + self.trips.timeout()).max(now);
        let calm = matches!(self.phase, Phase::Open | Phase::Reducing) && self.board.arrived() == 0;
        self.timer = Some(if calm && self.probe.is_none() && self.trips.smoothed().is_some() {
            (self.trips.probe_at(now, self.board.outstanding(), timeout_at), Timer::Probe)
        } else {
            (timeout_at, Timer::Retransmission)
        });
    }

    /// RFC 8985, section 7.3: sends something new, or the last again, to hear whether the tail was lost.
    fn probe(&mut self, now: Time) {
        let next = self.board.next();
        if self.may_send_new() {
            self.forced = Some(Forced::New);
            self.probe = Some(Probe { end: next + 1, again: false });
        } else if self.board.outstanding() > 0 {
            self.forced = Some(Forced::Again(next - 1));
            self.probe = Some(Probe { end: next, again: true });
        }
        self.statistics.probes += 1;
        self.set_timer(now);
    }

    /// RFC 6298, section 5, with RFC 8985, section 6.3: all that should have arrived by now counts as lost.
    fn time_out(&mut self, now: Time) {
        let first = self.board.first();
        let again = self.timed_out_at == Some(first);
        self.statistics.timeouts += 1;
        let reordering = &self.reordering;
        self.board.take_for_lost(|number, segment| number == first || reordering.overdue(segment, now));
        if self.phase != Phase::TimedOut || !again {
            self.undo = Some(Undo::new(first, 0));
            self.statistics.reductions += 1;
        }
        self.controller.timed_out(now, self.board.in_flight(), again);
        self.timed_out_at = Some(first);
        self.phase = Phase::TimedOut;
        self.point = self.board.next();
        self.probe = None;
        self.announce_reduction = true;
        self.trips.back_off();
        self.forced = Some(Forced::Again(first));
        self.timer = Some((now + self.trips.timeout(), Timer::Retransmission));
    }
}

impl News {
    /// A segment was delivered. The stamp that an acknowledgement in sequence echoes may show that it was not the last
    /// sending that arrived (RFC 8985, section 6.2, step 2).
    fn deliver(&mut self, segment: Segment, echo: Option<Time>) {
        self.delivered += 1;
        if segment.again && echo.is_some_and(|echo| echo < segment.sent) {
            return;
        }
        if self.newest.is_none_or(|newest| newest.order < segment.order) {
            self.newest = Some(segment);
        }
        if !segment.again {
            self.first_sent = Some(self.first_sent.map_or(segment.sent, |first| first.min(segment.sent)));
            self.last_sent = self.last_sent.max(Some(segment.sent));
        }
    }
}

impl Usage {
    /// After as much was sent as could be.
    fn note(&mut self, limited: bool, board: &Scoreboard) {
        let outstanding = board.outstanding();
        if board.first() >= self.until || limited || (!self.limited && outstanding > self.most_outstanding) {
            *self = Usage { limited, most_outstanding: outstanding, until: board.next() };
        }
    }

    /// In slow start the window may grow to twice what was used.
    fn limits(&self, slow_start: bool, window: f64) -> bool {
        self.limited || (slow_start && window < 2.0 * f64::from(self.most_outstanding))
    }
}
