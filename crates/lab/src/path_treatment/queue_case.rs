//! The queues of a case, what is true of their marks, and whether a report says so.

use super::judgement::{JudgedItem, Verdict};
use kumade_link::queue::{Discipline, DisciplineSettings, QueueConfig, QueueLimit, TailDropConfig};
use kumade_measurement::report::{LastingQueueKind, LastingQueueReport, QueueMarkingKind, QueueMarkingReport};
use kumade_units::{Direction, Rate, Span};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Queue disciplines of the link in either direction; none for tail drop.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueCase {
    /// From the host that measures.
    #[serde(default, deserialize_with = "discipline")]
    pub up: Option<DisciplineSettings>,
    /// To it.
    #[serde(default, deserialize_with = "discipline")]
    pub down: Option<DisciplineSettings>,
}

/// What is true of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct QueueTruth {
    kind: QueueMarkingKind,
    /// The waiting time from which on ECT(1) is marked.
    threshold: Option<Span>,
    /// Whether ECT(0) is marked once it has waited for long.
    marks_lasting: bool,
}

impl QueueCase {
    /// Whether there is any but tail drop.
    pub(super) fn is_special(&self) -> bool {
        self.up.is_some() || self.down.is_some()
    }

    /// The queue of a direction, before a link of this rate, that holds so many bytes.
    pub(super) fn config(&self, direction: Direction, rate: Rate, queue_bytes: u64) -> Option<QueueConfig> {
        let discipline = self.discipline(direction, rate)?;
        Some(QueueConfig { limit: QueueLimit::Bytes(queue_bytes), discipline })
    }

    fn discipline(&self, direction: Direction, rate: Rate) -> Option<Discipline> {
        let settings = if direction == Direction::Up { &self.up } else { &self.down };
        settings.as_ref().map(|settings| settings.discipline(Some(rate)))
    }

    /// What is true of it.
    pub(super) fn truth(&self, direction: Direction, rate: Rate) -> QueueTruth {
        let discipline = self.discipline(direction, rate).unwrap_or_else(|| TailDropConfig.into());
        let marks_lasting = match &discipline {
            Discipline::CeThreshold(config) => !config.is_l4s,
            Discipline::CoDel(config) => config.ecn,
            Discipline::FqCoDel(config) => config.codel.ecn,
            Discipline::Pie(config) => config.ecn,
            Discipline::Red(config) => config.ecn,
            Discipline::DualPi2(_) => true,
            _ => false,
        };
        let (kind, threshold) = match discipline {
            Discipline::CeThreshold(config) if config.is_l4s => (QueueMarkingKind::L4s, Some(config.threshold)),
            Discipline::CeThreshold(config) => (QueueMarkingKind::Shallow, Some(config.threshold)),
            Discipline::DualPi2(config) => (QueueMarkingKind::L4s, Some(config.step_threshold - config.ramp / 2)),
            // Classic queues mark after some hundred milliseconds.
            _ => (QueueMarkingKind::NoneSeen, None),
        };
        QueueTruth { kind, threshold, marks_lasting }
    }
}

/// Of what a report says of a queue.
pub(super) fn judge_queue(direction: Direction, found: Option<&QueueMarkingReport>, truth: QueueTruth) -> JudgedItem {
    let is_sure =
        |found: &&QueueMarkingReport| !matches!(found.kind, QueueMarkingKind::NotSure | QueueMarkingKind::NoQueue);
    let said = found.filter(is_sure);
    let from = said.and_then(|found| found.codepoints.iter().find(|codepoint| codepoint.mark == "ECT(1)")?.marked_from);
    let interval = from.map(|from| [from.low_seconds, from.high_seconds].map(Span::from_secs_f64));
    let covers = match (truth.threshold, interval) {
        (Some(threshold), Some([low, high])) => (low..=high).contains(&threshold),
        (None, None) => true,
        _ => false,
    };
    let verdict = match said {
        None => Verdict::NotSure,
        Some(found) if found.kind == truth.kind && covers => Verdict::Right,
        Some(_) => Verdict::Wrong,
    };
    let text = |kind: QueueMarkingKind, delay: Option<String>| {
        format!("{kind}{}", delay.map_or_else(String::new, |delay| format!(", ECT(1) from {delay} on")))
    };
    let described = found.map_or_else(
        || "not known".to_owned(),
        |found| text(found.kind, interval.map(|[low, high]| format!("{low} … {high}"))),
    );
    let is_treated = truth.kind != QueueMarkingKind::NoneSeen;
    let truth = text(truth.kind, truth.threshold.map(|threshold| threshold.to_string()));
    JudgedItem::new(format!("CE by the queue {direction}"), is_treated, truth, described, verdict)
}

/// Of what a report says of a queue that lasts.
pub(super) fn judge_lasting_queue(
    direction: Direction,
    found: Option<&LastingQueueReport>,
    truth: QueueTruth,
) -> JudgedItem {
    let said = found.filter(|found| found.kind != LastingQueueKind::NotSure);
    let said = said.map(|found| found.kind == LastingQueueKind::Marked);
    JudgedItem::compare(format!("CE by a lasting queue {direction}"), (false, truth.marks_lasting), said, |is_marked| {
        if *is_marked { "marked".into() } else { "not marked".into() }
    })
}

fn discipline<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DisciplineSettings>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_measurement::report::{CodepointMarkingReport, MarkingThresholdReport};

    fn found(kind: QueueMarkingKind, millis: Option<[f64; 2]>) -> QueueMarkingReport {
        let marked_from = millis.map(|[low, high]| MarkingThresholdReport {
            low_seconds: low / 1e3,
            high_seconds: high / 1e3,
            is_gradual: false,
            packets_above: 9,
            marked_above: 9,
        });
        let codepoint = CodepointMarkingReport {
            mark: "ECT(1)".to_owned(),
            sent: 100,
            arrived: 100,
            marked: 50,
            max_queueing_delay_seconds: Some(0.02),
            marked_from,
        };
        QueueMarkingReport { kind, codepoints: vec![codepoint] }
    }

    #[test]
    fn a_kind_and_its_threshold_are_judged_together() {
        let case: QueueCase = toml::from_str("up = \"dualpi2\"").unwrap();
        let rate = Rate::from_mbit(50);
        let [up, down] = Direction::BOTH.map(|direction| case.truth(direction, rate));
        let verdict = |truth, found: &QueueMarkingReport| judge_queue(Direction::Up, Some(found), truth).verdict;
        use QueueMarkingKind::{L4s, NoneSeen, NotSure};
        assert_eq!(verdict(up, &found(L4s, Some([0.8, 1.2]))), Verdict::Right);
        assert_eq!(verdict(up, &found(L4s, Some([1.1, 1.2]))), Verdict::Wrong);
        assert_eq!(verdict(up, &found(NoneSeen, None)), Verdict::Wrong);
        assert_eq!(verdict(up, &found(NotSure, None)), Verdict::NotSure);
        assert_eq!(verdict(down, &found(NoneSeen, None)), Verdict::Right);
        assert_eq!(verdict(down, &found(L4s, Some([0.8, 1.2]))), Verdict::Wrong);
        assert_eq!(judge_queue(Direction::Down, None, down).verdict, Verdict::NotSure);
        assert!(toml::from_str::<QueueCase>("up = \"dualpi\"").is_err());
    }

    #[test]
    fn a_lasting_queue_is_marked_by_disciplines_that_mark_ect0() {
        let marks = |text: &str| {
            let case: QueueCase = toml::from_str(&format!("up = \"{text}\"")).unwrap();
            case.truth(Direction::Up, Rate::from_mbit(50)).marks_lasting
        };
        for text in ["codel:ecn=on", "fq-codel", "pie:ecn=on", "red:ecn=on", "dualpi2", "ce-threshold:threshold=2ms"] {
            assert!(marks(text), "{text}");
        }
        for text in ["codel", "pie", "red", "tail-drop", "ce-threshold:threshold=1ms:l4s=on"] {
            assert!(!marks(text), "{text}");
        }
    }
}
