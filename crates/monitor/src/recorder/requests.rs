//! Measurements that somebody asks for.

use super::Recorder;
use crate::page::MeasureRequest;
use kumade_archive::AuditEntry;
use kumade_net::clock;
use kumade_planner::Waiting;

impl Recorder {
    /// Has the pair measured as soon as the plan has room for it.
    pub(super) fn take_measure_request(&mut self, request: MeasureRequest) {
        let MeasureRequest { pair, who, answer } = request;
        let (now, at) = (clock::monotonic(), clock::realtime());
        let place = self.pairs.iter().position(|known| known.target.id == pair);
        let run = place.and_then(|place| self.pairs[place].run);
        let asked = match run {
            Some(run) => self.schedule.request(run, now).map_err(|error| error.to_string()),
            None => Err("it is not measured: its target has no `measure` in the configuration".to_owned()),
        };
        if asked.is_ok() {
            self.audit(AuditEntry { at, who, what: format!("asked for a measurement of {pair}") });
            self.note(place, "measurement-asked-for", "somebody has asked for a measurement".to_owned());
        }
        self.follow_schedule(now, at);
        let text = asked.map(|waits_for| match waits_for {
            Waiting::Running | Waiting::Ready => "it is being measured".to_owned(),
            waits_for => format!("it will be measured; at present {}", self.waiting_text(&waits_for)),
        });
        // Whoever has asked may have gone.
        let _ = answer.send(text);
    }
}
