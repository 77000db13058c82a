//! Which carrier takes packets, where a far end is reached by datagrams as well as by connections.

use crate::outer_transport::kind::OuterTransport;
use crate::path::state::PathStatus;
use kumade_units::{Span, Time};

/// What is seen of a carrier: of all its paths together, counted from the start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransportSample {
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
pub struct TransportSelector {
    current_transport: OuterTransport,
    phase: Phase,
    window: ObservationWindow,
    /// Datagrams pass without a break since then.
    udp_up_since: Option<Time>,
    /// Datagrams are in use since then.
    udp_in_use_since: Option<Time>,
    /// What was seen of them a short time ago.
    recent_udp: Option<(Time, TransportSample)>,
    /// Failures of datagrams in use that are not forgiven.
    udp_failures: u32,
    /// What datagrams delivered was clearly less than what connections do: only a trial brings them back.
    is_udp_slower: bool,
    next_trial: Time,
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
struct ObservationWindow {
    start: Time,
    start_counters: Option<[TransportSample; 2]>,
    samples: u32,
    /// Of these, with packets that waited.
    backlogged_samples: u32,
}

const WINDOW_DURATION: Span = Span::from_secs(1);
const INITIAL_PHASE: Phase = Phase::Settled { limited: 0, scores: [0.0; 2] };
/// Windows in succession in which a carrier is limited before the other one is tried.
const LIMITED_WINDOWS_BEFORE_TRIAL: u32 = 3;
/// Windows of a trial, half of them for flows to adapt.
const TRIAL_WINDOWS: u32 = 4;
/// Connections are kept if they deliver so many times as much, …
const MIN_GAIN_RATIO: f64 = 4.0 / 3.0;
/// … and datagrams if it takes no more to equal connections.
const MAX_DEFICIT_RATIO: f64 = 1.1;
/// One lost datagram costs as much as so many packets.
const LOSS_COST_FACTOR: f64 = 10.0;
/// A carrier that loses one of so many packets may be limited by that.
const PACKETS_PER_LOSS: u64 = 5000;
/// A trial that brings less than this part is over at half time.
const ABANDONED_TRIAL_FRACTION: f64 = 0.25;
const LOSS_OBSERVATION_TIME: Span = Span::from_millis(500);
/// Fewer lost packets may be chance.
const MIN_LOST_PACKETS: u64 = 20;
const MIN_HOLD: Span = Span::from_secs(5);
const MAX_HOLD: Span = Span::from_secs(300);
const FAILURE_FORGIVEN_AFTER: Span = Span::from_secs(60);
const MIN_TRIAL_INTERVAL: Span = Span::from_secs(30);
const MAX_TRIAL_INTERVAL: Span = Span::from_secs(600);

impl TransportSelector {
    /// Of carriers of which nothing is known.
    pub fn new(now: Time) -> Self {
        TransportSelector {
            current_transport: OuterTransport::Udp,
            phase: INITIAL_PHASE,
            window: ObservationWindow::new(now),
            udp_up_since: None,
            udp_in_use_since: None,
            recent_udp: None,
            udp_failures: 0,
            is_udp_slower: false,
            next_trial: now,
            trial_interval: MIN_TRIAL_INTERVAL,
        }
    }

    /// What takes packets now.
    pub fn current(&self) -> OuterTransport {
        self.current_transport
    }

    /// Takes what is seen of datagrams and connections, and whether packets wait.
    pub fn update(&mut self, views: [TransportSample; 2], is_backlogged: bool, now: Time) {
        let [datagrams, connections] = views.map(|view| view.is_up);
        self.update_datagram_state(datagrams, now);
        if connections && self.lose_most_datagrams(&views[0], now) {
            self.udp_failures += 1;
            self.udp_up_since = Some(now);
            self.switch_transport(OuterTransport::Tcp, now);
        }
        match (datagrams, connections) {
            (true, false) => self.switch_transport(OuterTransport::Udp, now),
            (false, true) => self.switch_transport(OuterTransport::Tcp, now),
            (true, true) => self.return_to_datagrams(now),
            (false, false) => {}
        }
        self.window.samples += 1;
        self.window.backlogged_samples += u32::from(is_backlogged);
        let before = *self.window.start_counters.get_or_insert(views);
        if now - self.window.start >= WINDOW_DURATION {
            let (is_limited, score) = self.window.score_window(self.current_transport, before, views, now);
            self.window = ObservationWindow { start_counters: Some(views), ..ObservationWindow::new(now) };
            self.evaluate_window(is_limited, score, datagrams && connections, now);
        }
    }

    /// Notes how long datagrams have passed, and failed.
    fn update_datagram_state(&mut self, is_up: bool, now: Time) {
        if !is_up {
            let was_up = self.udp_up_since.take().is_some();
            if was_up && self.udp_in_use_since.take().is_some() {
                self.udp_failures += 1;
            }
            return;
        }
        self.udp_up_since.get_or_insert(now);
        if self.udp_in_use_since.is_some_and(|since| now - since >= FAILURE_FORGIVEN_AFTER) {
            self.udp_failures = 0;
        }
        if self.current_transport == OuterTransport::Udp {
            self.udp_in_use_since.get_or_insert(now);
        }
    }

    /// Whether datagrams in use have lost more than has arrived of late.
    fn lose_most_datagrams(&mut self, datagrams: &TransportSample, now: Time) -> bool {
        let (since, before) = *self.recent_udp.get_or_insert((now, *datagrams));
        if now - since < LOSS_OBSERVATION_TIME {
            return false;
        }
        self.recent_udp = None;
        let TransportSample { delivered_packets, lost_packets, .. } = datagrams.difference_since(&before);
        self.current_transport == OuterTransport::Udp && lost_packets > delivered_packets.max(MIN_LOST_PACKETS)
    }

    /// Both pass: the one that was better, or is not known to be worse, is used again if the other was used in its place.
    fn return_to_datagrams(&mut self, now: Time) {
        match self.phase {
            Phase::Trial { .. } => {}
            Phase::Settled { .. } if self.is_udp_slower => self.switch_transport(OuterTransport::Tcp, now),
            Phase::Settled { .. } if self.datagram_hold_elapsed(now) => self.switch_transport(OuterTransport::Udp, now),
            Phase::Settled { .. } => {}
        }
    }

    /// Whether datagrams have passed for as long as they have to after they failed.
    fn datagram_hold_elapsed(&self, now: Time) -> bool {
        let hold = match self.udp_failures {
            0 => Span::ZERO,
            failures => (MIN_HOLD * (1 << (failures - 1).min(10))).min(MAX_HOLD),
        };
        self.udp_up_since.is_some_and(|since| now - since >= hold)
    }

    /// A carrier takes packets from now on, and not for a trial.
    fn switch_transport(&mut self, to: OuterTransport, now: Time) {
        if self.current_transport != to {
            self.begin_window(to, INITIAL_PHASE, now);
        } else if let Phase::Trial { .. } = self.phase {
            // What it was tried against is down.
            self.phase = INITIAL_PHASE;
        }
    }

    fn begin_window(&mut self, with: OuterTransport, phase: Phase, now: Time) {
        (self.current_transport, self.phase) = (with, phase);
        (self.window, self.recent_udp) = (ObservationWindow::new(now), None);
        self.udp_in_use_since = (with == OuterTransport::Udp).then_some(now);
    }

    /// Draws the conclusions of a window.
    fn evaluate_window(&mut self, is_limited: bool, score: f64, both_up: bool, now: Time) {
        match self.phase {
            Phase::Settled { limited, scores: [_, last] } => {
                let (limited, scores) = (if is_limited { limited + 1 } else { 0 }, [last, score]);
                self.phase = Phase::Settled { limited, scores };
                let may_try = both_up && now >= self.next_trial && self.datagram_hold_elapsed(now);
                if may_try && limited >= LIMITED_WINDOWS_BEFORE_TRIAL {
                    let against = mean_score(scores);
                    let trial = Phase::Trial { windows: 0, against, scores: [0.0; 2] };
                    self.begin_window(self.current_transport.other(), trial, now);
                }
            }
            Phase::Trial { windows, against, scores: [_, last] } => {
                let (windows, scores) = (windows + 1, [last, score]);
                self.phase = Phase::Trial { windows, against, scores };
                let is_hopeless =
                    windows == TRIAL_WINDOWS / 2 && mean_score(scores) < ABANDONED_TRIAL_FRACTION * against;
                if windows >= TRIAL_WINDOWS || is_hopeless {
                    self.end_trial(mean_score(scores), against, now);
                }
            }
        }
    }

    fn end_trial(&mut self, score: f64, against: f64, now: Time) {
        let is_kept = match self.current_transport {
            OuterTransport::Tcp => score > MIN_GAIN_RATIO * against,
            OuterTransport::Udp => score * MAX_DEFICIT_RATIO >= against,
        };
        let kept = if is_kept { self.current_transport } else { self.current_transport.other() };
        let interval = self.trial_interval * 2;
        self.trial_interval = if is_kept { MIN_TRIAL_INTERVAL } else { interval.min(MAX_TRIAL_INTERVAL) };
        self.next_trial = now + self.trial_interval;
        self.is_udp_slower = kept == OuterTransport::Tcp;
        self.begin_window(kept, INITIAL_PHASE, now);
    }
}

impl ObservationWindow {
    fn new(start: Time) -> Self {
        ObservationWindow { start, start_counters: None, samples: 0, backlogged_samples: 0 }
    }

    /// Whether the carrier in use was limited, and what it delivered, in bits per second less what its losses cost.
    fn score_window(
        &self,
        current: OuterTransport,
        before: [TransportSample; 2],
        after: [TransportSample; 2],
        now: Time,
    ) -> (bool, f64) {
        let differences = [0, 1].map(|place| after[place].difference_since(&before[place]));
        let bytes: f64 = differences.iter().map(|view| view.delivered_bytes as f64).sum();
        let rate = bytes * 8.0 / (now - self.start).as_secs_f64().max(1e-3);
        let in_use = differences[current as usize];
        let packets = in_use.delivered_packets.saturating_add(in_use.lost_packets);
        let loss = in_use.lost_packets as f64 / packets.max(1) as f64;
        let is_lossy = in_use.lost_packets > 0 && in_use.lost_packets.saturating_mul(PACKETS_PER_LOSS) >= packets;
        let is_backlogged = self.backlogged_samples * 2 >= self.samples;
        (is_lossy || is_backlogged, rate * (1.0 - LOSS_COST_FACTOR * loss).max(0.0))
    }
}

impl TransportSample {
    /// Counts a path.
    pub(crate) fn add_path(&mut self, is_up: bool, path: &PathStatus) {
        self.is_up |= is_up;
        // The far end says what was delivered.
        self.delivered_packets = self.delivered_packets.saturating_add(path.delivered_packets);
        self.delivered_bytes = self.delivered_bytes.saturating_add(path.delivered_bytes);
        self.lost_packets = self.lost_packets.saturating_add(path.lost_packets);
    }

    fn difference_since(&self, before: &TransportSample) -> TransportSample {
        TransportSample {
            is_up: self.is_up,
            delivered_packets: self.delivered_packets.saturating_sub(before.delivered_packets),
            delivered_bytes: self.delivered_bytes.saturating_sub(before.delivered_bytes),
            lost_packets: self.lost_packets.saturating_sub(before.lost_packets),
        }
    }
}

fn mean_score(scores: [f64; 2]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}
