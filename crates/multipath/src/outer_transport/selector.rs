//! Which carrier takes packets, where a far end is reached by datagrams as well as by connections.

use crate::path_state::{FlowControl, PathStatus};
use kumade_units::{Span, Time};
use std::fmt;

/// What carries packets to a far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarrierKind {
    /// UDP datagrams.
    Datagrams,
    /// TCP connections.
    Connections,
}

/// What is seen of a carrier: of all its paths together, counted from the start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CarrierView {
    /// One of its paths carries packets, at least.
    pub is_up: bool,
    /// Packets that have arrived, as the far end reports.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets that did not arrive, of those that reports cover.
    pub lost_packets: u64,
}

/// The carrier that takes packets now: datagrams where they pass and perform, else connections.
///
/// **Rule.** *What passes.* Of two carriers of which one is down, the other is used, at once. Datagrams are used as soon as they
/// pass. They have failed if they go down in use, or lose more than arrives for half a second (a firewall may drop long ones
/// only): then they are used again when they have passed for 5 s without a break, and for twice as long after each further
/// failure, up to 5 min. A minute in use without a failure is forgiven all earlier ones.
///
/// *What performs.* What a carrier would deliver is seen only where packets wait for it, or where it loses some of them, so that
/// flows inside hold back: then it is limited. What counts is the rate at which bytes arrive, less ten percent for each percent
/// of datagrams that is lost. Where the carrier in use has been limited for three seconds, the other one is tried: it takes all
/// packets for four seconds, of which the last two count. Connections are kept if they deliver a third more than datagrams did;
/// datagrams if they deliver nearly what connections did, since no loss of another's packet holds up what they carry. The
/// carrier that loses is not tried again for 30 s, and for twice as long each further time, up to 10 min. So a bad choice
/// lasts for seconds, and a good one is disturbed ever less.
///
/// **Loop contract.** Tell it what is seen a few times a second, and when a path comes or goes.
#[derive(Debug)]
pub struct CarrierChoice {
    current: CarrierKind,
    phase: Phase,
    window: Window,
    /// Datagrams pass without a break since then.
    datagrams_up: Option<Time>,
    /// Datagrams are in use since then.
    datagrams_used: Option<Time>,
    /// What was seen of them a short time ago.
    recent: Option<(Time, CarrierView)>,
    /// Failures of datagrams in use that are not forgiven.
    failures: u32,
    /// What datagrams delivered was clearly less than what connections do: only a trial brings them back.
    datagrams_are_slower: bool,
    trial_at: Time,
    trial_interval: Span,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// One carrier is in use, and has been limited in so many windows in succession; what it delivered in the last two.
    Settled { limited: u32, scores: [f64; 2] },
    /// The other one is tried since so many windows, against what the first delivered; what it did in the last two.
    Trial { windows: u32, against: f64, scores: [f64; 2] },
}

/// What has been seen since its start.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: Time,
    views: Option<[CarrierView; 2]>,
    samples: u32,
    /// Of these, with packets that waited.
    backlogged: u32,
}

const WINDOW: Span = Span::from_secs(1);
const SETTLED: Phase = Phase::Settled { limited: 0, scores: [0.0; 2] };
/// Windows in succession in which a carrier is limited before the other one is tried.
const LIMITED_WINDOWS: u32 = 3;
/// Windows of a trial, half of them for flows to adapt.
const TRIAL_WINDOWS: u32 = 4;
/// Connections are kept if they deliver so many times as much, …
const MIN_GAIN: f64 = 4.0 / 3.0;
/// … and datagrams if it takes no more to equal connections.
const MAX_DEFICIT: f64 = 1.1;
/// One lost datagram costs as much as so many packets.
const LOSS_COST: f64 = 10.0;
/// A carrier that loses one of so many packets may be limited by that.
const PACKETS_PER_LOSS: u64 = 5000;
/// A trial that brings less than this part is over at half time.
const HOPELESS_PART: f64 = 0.25;
const LOSS_TIME: Span = Span::from_millis(500);
/// Fewer lost packets may be chance.
const MIN_LOST: u64 = 20;
const MIN_HOLD: Span = Span::from_secs(5);
const MAX_HOLD: Span = Span::from_secs(300);
const FORGIVEN_AFTER: Span = Span::from_secs(60);
const MIN_TRIAL_INTERVAL: Span = Span::from_secs(30);
const MAX_TRIAL_INTERVAL: Span = Span::from_secs(600);

impl CarrierKind {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            CarrierKind::Datagrams => CarrierKind::Connections,
            CarrierKind::Connections => CarrierKind::Datagrams,
        }
    }
}

impl fmt::Display for CarrierKind {
    /// `UDP` or `TCP`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CarrierKind::Datagrams => "UDP",
            CarrierKind::Connections => "TCP",
        })
    }
}

impl From<FlowControl> for CarrierKind {
    fn from(flow_control: FlowControl) -> Self {
        match flow_control {
            FlowControl::Pacing => CarrierKind::Datagrams,
            FlowControl::Backpressure => CarrierKind::Connections,
        }
    }
}

impl From<CarrierKind> for FlowControl {
    fn from(kind: CarrierKind) -> Self {
        match kind {
            CarrierKind::Datagrams => FlowControl::Pacing,
            CarrierKind::Connections => FlowControl::Backpressure,
        }
    }
}

impl CarrierChoice {
    /// Of carriers of which nothing is known.
    pub fn new(now: Time) -> Self {
        CarrierChoice {
            current: CarrierKind::Datagrams,
            phase: SETTLED,
            window: Window::new(now),
            datagrams_up: None,
            datagrams_used: None,
            recent: None,
            failures: 0,
            datagrams_are_slower: false,
            trial_at: now,
            trial_interval: MIN_TRIAL_INTERVAL,
        }
    }

    /// What takes packets now.
    pub fn current(&self) -> CarrierKind {
        self.current
    }

    /// Takes what is seen of datagrams and connections, and whether packets wait.
    pub fn update(&mut self, views: [CarrierView; 2], is_backlogged: bool, now: Time) {
        let [datagrams, connections] = views.map(|view| view.is_up);
        self.follow_datagrams(datagrams, now);
        if connections && self.lose_most(&views[0], now) {
            self.failures += 1;
            self.datagrams_up = Some(now);
            self.change(CarrierKind::Connections, now);
        }
        match (datagrams, connections) {
            (true, false) => self.change(CarrierKind::Datagrams, now),
            (false, true) => self.change(CarrierKind::Connections, now),
            (true, true) => self.return_to_better(now),
            (false, false) => {}
        }
        self.window.samples += 1;
        self.window.backlogged += u32::from(is_backlogged);
        let before = *self.window.views.get_or_insert(views);
        if now - self.window.start >= WINDOW {
            let (is_limited, score) = self.window.judge(self.current, before, views, now);
            self.window = Window { views: Some(views), ..Window::new(now) };
            self.judge(is_limited, score, datagrams && connections, now);
        }
    }

    /// Notes how long datagrams have passed, and failed.
    fn follow_datagrams(&mut self, is_up: bool, now: Time) {
        if !is_up {
            let was_up = self.datagrams_up.take().is_some();
            if was_up && self.datagrams_used.take().is_some() {
                self.failures += 1;
            }
            return;
        }
        self.datagrams_up.get_or_insert(now);
        if self.datagrams_used.is_some_and(|since| now - since >= FORGIVEN_AFTER) {
            self.failures = 0;
        }
        if self.current == CarrierKind::Datagrams {
            self.datagrams_used.get_or_insert(now);
        }
    }

    /// Whether datagrams in use have lost more than has arrived of late.
    fn lose_most(&mut self, datagrams: &CarrierView, now: Time) -> bool {
        let (since, before) = *self.recent.get_or_insert((now, *datagrams));
        if now - since < LOSS_TIME {
            return false;
        }
        self.recent = None;
        let CarrierView { delivered_packets, lost_packets, .. } = datagrams.since(&before);
        self.current == CarrierKind::Datagrams && lost_packets > delivered_packets.max(MIN_LOST)
    }

    /// Both pass: the one that was better, or is not known to be worse, is used again if the other was used in its place.
    fn return_to_better(&mut self, now: Time) {
        match self.phase {
            Phase::Trial { .. } => {}
            Phase::Settled { .. } if self.datagrams_are_slower => self.change(CarrierKind::Connections, now),
            Phase::Settled { .. } if self.datagrams_hold(now) => self.change(CarrierKind::Datagrams, now),
            Phase::Settled { .. } => {}
        }
    }

    /// Whether datagrams have passed for as long as they have to after they failed.
    fn datagrams_hold(&self, now: Time) -> bool {
        let hold = match self.failures {
            0 => Span::ZERO,
            failures => (MIN_HOLD * (1 << (failures - 1).min(10))).min(MAX_HOLD),
        };
        self.datagrams_up.is_some_and(|since| now - since >= hold)
    }

    /// A carrier takes packets from now on, and not for a trial.
    fn change(&mut self, to: CarrierKind, now: Time) {
        if self.current != to {
            self.begin(to, SETTLED, now);
        } else if let Phase::Trial { .. } = self.phase {
            // What it was tried against is down.
            self.phase = SETTLED;
        }
    }

    fn begin(&mut self, with: CarrierKind, phase: Phase, now: Time) {
        (self.current, self.phase) = (with, phase);
        (self.window, self.recent) = (Window::new(now), None);
        self.datagrams_used = (with == CarrierKind::Datagrams).then_some(now);
    }

    /// Draws the conclusions of a window.
    fn judge(&mut self, is_limited: bool, score: f64, both_up: bool, now: Time) {
        match self.phase {
            Phase::Settled { limited, scores: [_, last] } => {
                let (limited, scores) = (if is_limited { limited + 1 } else { 0 }, [last, score]);
                self.phase = Phase::Settled { limited, scores };
                let may_try = both_up && now >= self.trial_at && self.datagrams_hold(now);
                if may_try && limited >= LIMITED_WINDOWS {
                    let against = mean(scores);
                    let trial = Phase::Trial { windows: 0, against, scores: [0.0; 2] };
                    self.begin(self.current.other(), trial, now);
                }
            }
            Phase::Trial { windows, against, scores: [_, last] } => {
                let (windows, scores) = (windows + 1, [last, score]);
                self.phase = Phase::Trial { windows, against, scores };
                let is_hopeless = windows == TRIAL_WINDOWS / 2 && mean(scores) < HOPELESS_PART * against;
                if windows >= TRIAL_WINDOWS || is_hopeless {
                    self.end_trial(mean(scores), against, now);
                }
            }
        }
    }

    fn end_trial(&mut self, score: f64, against: f64, now: Time) {
        let is_kept = match self.current {
            CarrierKind::Connections => score > MIN_GAIN * against,
            CarrierKind::Datagrams => score * MAX_DEFICIT >= against,
        };
        let kept = if is_kept { self.current } else { self.current.other() };
        let interval = self.trial_interval * 2;
        self.trial_interval = if is_kept { MIN_TRIAL_INTERVAL } else { interval.min(MAX_TRIAL_INTERVAL) };
        self.trial_at = now + self.trial_interval;
        self.datagrams_are_slower = kept == CarrierKind::Connections;
        self.begin(kept, SETTLED, now);
    }
}

impl Window {
    fn new(start: Time) -> Self {
        Window { start, views: None, samples: 0, backlogged: 0 }
    }

    /// Whether the carrier in use was limited, and what it delivered, in bits per second less what its losses cost.
    fn judge(&self, current: CarrierKind, before: [CarrierView; 2], after: [CarrierView; 2], now: Time) -> (bool, f64) {
        let differences = [0, 1].map(|place| after[place].since(&before[place]));
        let bytes: u64 = differences.iter().map(|view| view.delivered_bytes).sum();
        let rate = bytes as f64 * 8.0 / (now - self.start).as_secs_f64().max(1e-3);
        let in_use = differences[current as usize];
        let packets = in_use.delivered_packets + in_use.lost_packets;
        let loss = in_use.lost_packets as f64 / packets.max(1) as f64;
        let is_lossy = in_use.lost_packets > 0 && in_use.lost_packets * PACKETS_PER_LOSS >= packets;
        let is_backlogged = self.backlogged * 2 >= self.samples;
        (is_lossy || is_backlogged, rate * (1.0 - LOSS_COST * loss).max(0.0))
    }
}

impl CarrierView {
    /// Counts a path.
    pub(crate) fn add(&mut self, is_up: bool, path: &PathStatus) {
        self.is_up |= is_up;
        self.delivered_packets += path.delivered_packets;
        self.delivered_bytes += path.delivered_bytes;
        self.lost_packets += path.lost_packets;
    }

    fn since(&self, before: &CarrierView) -> CarrierView {
        CarrierView {
            is_up: self.is_up,
            delivered_packets: self.delivered_packets.saturating_sub(before.delivered_packets),
            delivered_bytes: self.delivered_bytes.saturating_sub(before.delivered_bytes),
            lost_packets: self.lost_packets.saturating_sub(before.lost_packets),
        }
    }
}

fn mean(scores: [f64; 2]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}
