//! What the recorder has to do with alerts: it observes, stores, and has sent what is stored.

use super::{Message, Recorder};
use crate::alerts::{ALERTS_KEY, SendReport};
use crate::run_document::run_status;
use crate::status::RunStatus;
use kumade_alerts::{Cause, NoticeKind};
use kumade_archive::PairId;
use kumade_net::clock;
use kumade_units::{Span, Time};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

/// Measurements by which the usual value is known at a start.
const MAX_USUAL_RUNS: u32 = 50;
/// How long the end waits for messages that are under way, so that they need not be sent again.
const MAX_END_WAIT: Span = Span::from_secs(3);

impl Recorder {
    /// Hands reports over to the recorder.
    pub(super) fn alert_reporter(messages: &SyncSender<Message>) -> impl Fn(SendReport) + Clone + Send + 'static {
        let messages = messages.clone();
        // The monitor has ended where nobody takes it.
        move |report| drop(messages.send(Message::Alert(report)))
    }

    pub(super) fn update_alerts(&mut self, now: Time, utc: Time) {
        let agents = self.mesh.iter().flat_map(|mesh| mesh.agents.iter().enumerate());
        agents.for_each(|(place, agent)| self.alerter.set_agent(place, agent.is_connected, now));
        let notices = self.alerter.update(&self.pairs, self.archive_failure.as_deref(), now, utc);
        for (kind, alert, text) in notices {
            let place = match &alert.cause {
                Cause::Pair(id) => self.pairs.iter().position(|pair| pair.target.id == *id),
                Cause::Shared(_) | Cause::Archive | Cause::Agent(_) | Cause::AllAgents => None,
            };
            let kind = if kind == NoticeKind::Resolved { "alert-resolved" } else { "alert" };
            self.note(place, kind, text);
        }
        self.store_alerts();
        // What cannot be stored is sent all the same: that is what there may be an alert on.
        self.alerter.send_due(now, utc);
    }

    fn store_alerts(&mut self) {
        let Some(state) = self.alerter.unsaved() else { return };
        match self.archive.put_state(ALERTS_KEY, Some(&state)) {
            Ok(()) => self.alerter.set_saved(),
            Err(error) => self.fail(&error),
        }
    }

    /// What the archive knows of a pair's measurements, to tell a change by.
    pub(super) fn restore_usual(&mut self, target: usize, pair: PairId) {
        let runs = self.archive.read().runs(pair, Time::ZERO..Time::MAX, MAX_USUAL_RUNS).unwrap_or_default();
        let runs: Vec<RunStatus> = runs.iter().map(run_status).collect();
        self.alerter.restore_usual(target, &runs);
    }

    /// Waits a little for what is under way, and stores what has come of it.
    pub(super) fn end_alerts(&mut self, messages: &Receiver<Message>) {
        let deadline = clock::monotonic() + MAX_END_WAIT;
        while self.alerter.is_sending() {
            let wait: Duration = (deadline - clock::monotonic()).max(Span::ZERO).to_duration();
            match messages.recv_timeout(wait) {
                Ok(Message::Alert(report)) => self.alerter.take_report(report, clock::monotonic()),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.store_alerts();
    }
}
