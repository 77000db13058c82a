use crate::store::Kept;
use kumade_sketch::Layer;
use kumade_units::Span;

/// How long what is kept; none means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Each packet: 7 days by default. Samples that are older are not taken.
    pub packets: Span,
    /// Minutes: 30 days.
    pub minutes: Option<Span>,
    /// Hours: three years.
    pub hours: Option<Span>,
    /// Days: for ever.
    pub days: Option<Span>,
    /// Figures of runs: for ever.
    pub runs: Option<Span>,
    /// Documents of runs: 90 days.
    pub documents: Option<Span>,
    /// Events, gaps and audit: three years.
    pub records: Option<Span>,
}

const DAY_SECS: i64 = 86_400;

const fn days(days: i64) -> Span {
    Span::from_secs(days * DAY_SECS)
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            packets: days(7),
            minutes: Some(days(30)),
            hours: Some(days(3 * 365)),
            days: None,
            runs: None,
            documents: Some(days(90)),
            records: Some(days(3 * 365)),
        }
    }
}

impl Retention {
    /// How long one kind is kept.
    pub fn span(&self, kept: Kept) -> Option<Span> {
        match kept {
            // An older batch has no samples that would be taken.
            Kept::Packets | Kept::Delivered => Some(self.packets),
            Kept::Blocks(Layer::Minutes) => self.minutes,
            Kept::Blocks(Layer::Hours) => self.hours,
            Kept::Blocks(Layer::Days) => self.days,
            Kept::Runs => self.runs,
            Kept::Documents => self.documents,
            Kept::Events | Kept::Gaps | Kept::Audit => self.records,
        }
    }
}
