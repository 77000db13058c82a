//! What filling the path with TCP transfers came to.

use super::figures::Bytes;
use super::warning::LoadReason;
use kumade_probe_train::Estimate;
use kumade_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// IP bytes for each byte of payload, in full packets with TCP time stamps.
pub(crate) const IP_BYTES_PER_BYTE: f64 = 1500.0 / 1448.0;

/// Round trips while TCP connections fill the path in one direction, in the second half of that time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadReport {
    /// TCP connections that always had something to send.
    pub connections: u32,
    /// How long they sent.
    pub duration_seconds: f64,
    /// Payload bytes that they carried.
    pub bytes: u64,
    /// Payload that they carried in the second half of the time, all together (bulk transfer capacity, RFC 3148); null if it
    /// is not known.
    pub goodput_bits_per_second: Option<Rate>,
    /// Median round trip of small messages on another TCP connection, before; null if none was answered.
    pub idle_round_trip_seconds: Option<f64>,
    /// The same in the second half of the time; null as above.
    pub round_trip_seconds: Option<f64>,
    /// By how much the median has grown; the bounds are the least and the greatest that a quarter of that half gave. Null if
    /// too few messages were answered.
    pub added_delay_seconds: Option<Estimate<f64>>,
    /// The bufferbloat grade of the lower bound; null as above.
    pub best_grade: Option<BufferbloatGrade>,
    /// The bufferbloat grade of the upper bound; null as above, and if the connections did not fill the path, so that the
    /// delay may be longer.
    pub worst_grade: Option<BufferbloatGrade>,
    /// Why there is no worst grade; null if there is one.
    #[schemars(with = "Option<String>")]
    pub reason: Option<LoadReason>,
}

/// The grade of an added delay, as DSLReports' and Waveform's tests give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum BufferbloatGrade {
    /// Less than 5 ms.
    #[serde(rename = "A+")]
    APlus,
    /// Less than 30 ms.
    A,
    /// Less than 60 ms.
    B,
    /// Less than 200 ms.
    C,
    /// Less than 400 ms.
    D,
    /// 400 ms and more.
    F,
}

impl BufferbloatGrade {
    const GRADE_LIMITS: [(Self, Span, &'static str); 6] = [
        (Self::APlus, Span::from_millis(5), "A+"),
        (Self::A, Span::from_millis(30), "A"),
        (Self::B, Span::from_millis(60), "B"),
        (Self::C, Span::from_millis(200), "C"),
        (Self::D, Span::from_millis(400), "D"),
        (Self::F, Span::MAX, "F"),
    ];

    /// Of a delay that a filled path adds.
    pub fn from_added_delay(added: Span) -> Self {
        Self::GRADE_LIMITS.into_iter().find(|(_, limit, _)| added < *limit).map_or(Self::F, |(grade, ..)| grade)
    }
}

impl LoadReport {
    /// A load that could not be carried out.
    pub(crate) fn failed(reason: LoadReason) -> Self {
        LoadReport {
            connections: 0,
            duration_seconds: 0.0,
            bytes: 0,
            goodput_bits_per_second: None,
            idle_round_trip_seconds: None,
            round_trip_seconds: None,
            added_delay_seconds: None,
            best_grade: None,
            worst_grade: None,
            reason: Some(reason),
        }
    }

    /// Bytes of the IP packets that carried the payload, but for those that were sent again.
    pub(crate) fn ip_bytes(&self) -> u64 {
        (self.bytes as f64 * IP_BYTES_PER_BYTE) as u64
    }

    /// The grades in short: `B`, `A to C`, `A or worse`; none if there is none.
    pub fn describe_grade(&self) -> Option<String> {
        let best = self.best_grade?;
        Some(match self.worst_grade {
            Some(worst) if worst == best => best.to_string(),
            Some(worst) => format!("{best} to {worst}"),
            None if best == BufferbloatGrade::F => best.to_string(),
            None => format!("{best} or worse"),
        })
    }
}

impl fmt::Display for BufferbloatGrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::GRADE_LIMITS.into_iter().find(|(grade, ..)| grade == self).map_or("", |(.., name)| name);
        f.pad(name)
    }
}

impl fmt::Display for LoadReport {
    /// `bufferbloat grade C: 20.1 ms → 143 ms (+122 ms: 110 ms … 140 ms), 18.9 Mbit/s of payload over 4 TCP connections …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.describe_grade() {
            Some(grade) => write!(f, "bufferbloat grade {grade}")?,
            None => f.write_str("no bufferbloat grade")?,
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        if let (Some(idle), Some(loaded), Some(added)) =
            (self.idle_round_trip_seconds, self.round_trip_seconds, self.added_delay_seconds)
        {
            let [idle, loaded, value, low, high] =
                [idle, loaded, added.value, added.low, added.high].map(Span::from_secs_f64);
            write!(f, ": round trip {idle} → {loaded} (+{value}: {low} … {high})")?;
        }
        if let Some(goodput) = self.goodput_bits_per_second {
            write!(f, ", {goodput} of payload")?;
        }
        if self.connections > 0 {
            let (bytes, duration) = (Bytes(self.bytes), self.duration_seconds);
            write!(f, " — {} TCP connections, {bytes}, {duration:.1} s", self.connections)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_are_those_that_people_know() {
        let grade = |millis| BufferbloatGrade::from_added_delay(Span::from_millis(millis)).to_string();
        let grades = [0, 4, 5, 29, 30, 59, 60, 199, 200, 399, 400, 60_000].map(grade);
        assert_eq!(grades, ["A+", "A+", "A", "A", "B", "B", "C", "C", "D", "D", "F", "F"]);
        for (grade, _, name) in BufferbloatGrade::GRADE_LIMITS {
            assert_eq!(serde_json::to_value(grade).unwrap(), name);
        }
    }

    #[test]
    fn what_is_not_sure_is_said() {
        use BufferbloatGrade::{A, C, F};
        let grade = |best_grade, worst_grade| {
            LoadReport { best_grade, worst_grade, ..LoadReport::failed(LoadReason::TooFewAnswers) }.describe_grade()
        };
        assert_eq!(grade(Some(C), Some(C)).unwrap(), "C");
        assert_eq!(grade(Some(A), Some(C)).unwrap(), "A to C");
        assert_eq!(grade(Some(A), None).unwrap(), "A or worse");
        assert_eq!(grade(Some(F), None).unwrap(), "F", "nothing is worse");
        assert_eq!(grade(None, None), None);
    }
}
