use super::judgement::{JudgedItem, Verdict, summarize};
use super::scenario::{IpVersion, TreatmentPoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One measurement of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreatmentRow {
    /// What was done to packets, in the scenario's words.
    pub case: String,
    /// The IP version.
    pub version: IpVersion,
    /// The part of packets that the link lost.
    pub loss_ratio: f64,
    /// Counted from 1 for each case.
    pub run: u32,
    /// Whether the report is right as a whole: wrong where one statement is, not sure where one is about what is done to packets.
    pub verdict: Verdict,
    /// Statements that are right.
    pub right: u32,
    /// Statements that are missing or not sure.
    pub not_sure: u32,
    /// Statements that are wrong.
    pub wrong: u32,
    /// The statements about what is done to packets, and all that are wrong.
    pub items: Vec<JudgedItem>,
    /// Why there is no report; null if there is one.
    pub reason: Option<String>,
    /// Duration of the measurement.
    pub duration_seconds: f64,
    /// How often it was repeated.
    pub repeats: u32,
    /// Whether the last repetition was disturbed as well.
    pub disturbed: bool,
}

impl TreatmentRow {
    /// Of what was judged, or the reason why there was nothing.
    pub(super) fn new(
        point: &TreatmentPoint<'_>,
        judged: Result<Vec<JudgedItem>, String>,
        duration_seconds: f64,
    ) -> Self {
        let (items, reason) = match judged {
            Ok(items) => (items, None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let count = |verdict| items.iter().filter(|item| item.verdict == verdict).count() as u32;
        let mut row = TreatmentRow {
            case: point.case.label.clone(),
            version: point.case.version,
            loss_ratio: point.case.loss,
            run: point.run,
            verdict: summarize(&items),
            right: count(Verdict::Right),
            not_sure: count(Verdict::NotSure),
            wrong: count(Verdict::Wrong),
            items,
            reason,
            duration_seconds,
            repeats: 0,
            disturbed: false,
        };
        row.items.retain(|item| item.is_treated || item.verdict == Verdict::Wrong);
        row
    }

    /// In a few words, what is not right.
    pub(super) fn first_fault(&self) -> Option<String> {
        let worst = self.items.iter().filter(|item| item.verdict != Verdict::Right).max_by_key(|item| item.verdict);
        let fault = |item: &JudgedItem| format!("{}: {}, found: {}", item.item, item.truth, item.found);
        self.reason.clone().or_else(|| worst.filter(|_| self.verdict != Verdict::Right).map(fault))
    }
}
