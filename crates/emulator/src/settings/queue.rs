use kumade_link::Framing;
use kumade_link::queue::{Discipline, DisciplineSettings, QueueLimit};
use kumade_units::Rate;

/// A queue discipline, in words: its name behind `queue`, and then its parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct QueueSettings(DisciplineSettings);

/// The setting that names the discipline.
pub(super) const QUEUE_KEY: &str = "queue";

impl QueueSettings {
    /// A new discipline begins with its defaults.
    pub(super) fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        let set = match key {
            QUEUE_KEY => DisciplineSettings::new(text).map(|new| self.0 = new),
            parameter => self.0.set(parameter, text),
        };
        set.map_err(|error| error.to_string())
    }

    pub(super) fn to_words(&self) -> Vec<(&'static str, String)> {
        if *self == QueueSettings::default() {
            return Vec::new();
        }
        let parameters = self.0.given_parameters().map(|(name, value)| (name, value.to_owned()));
        [(QUEUE_KEY, self.0.name().to_owned())].into_iter().chain(parameters).collect()
    }

    pub(super) fn name(&self) -> &'static str {
        self.0.name()
    }

    pub(super) fn is_tail_drop(&self) -> bool {
        self.0.name() == DisciplineSettings::default().name()
    }

    /// How much can be queued unless that is set.
    pub(super) fn default_limit(&self) -> QueueLimit {
        self.0.discipline(None).info().default_limit
    }

    /// The discipline; where nothing is set, fit for a link of this rate and framing.
    pub(super) fn discipline(&self, rate: Option<Rate>, framing: Framing) -> Discipline {
        let mut discipline = self.0.discipline(rate);
        discipline.adapt_to_framing(framing);
        discipline
    }
}
