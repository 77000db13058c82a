/// Why a scenario file is not taken.
pub(super) enum Refusal {
    /// It is not written as files of its kind are.
    Malformed(toml::de::Error),
    /// What it says contradicts itself, or something given on the command line.
    Invalid(String),
}
