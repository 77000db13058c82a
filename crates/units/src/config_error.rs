use thiserror::Error;

/// A setting that a link, a queue, a middlebox or a traffic source cannot have.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("cannot set up the {part}: {name} is {value}, {problem}; {remedy}")]
pub struct ConfigError {
    part: &'static str,
    name: &'static str,
    value: String,
    problem: &'static str,
    remedy: &'static str,
}

impl ConfigError {
    /// Makes errors about one `part`: called with the setting's name, value, problem and remedy.
    pub fn for_part(part: &'static str) -> impl Fn(&'static str, String, &'static str, &'static str) -> ConfigError {
        move |name, value, problem, remedy| ConfigError { part, name, value, problem, remedy }
    }

    /// Refuses what is no probability from 0 to 1.
    ///
    /// # Errors
    /// Names the setting, its value and what may stand there.
    pub fn check_probability(part: &'static str, name: &'static str, value: f64) -> Result<(), ConfigError> {
        if (0.0..=1.0).contains(&value) {
            return Ok(());
        }
        Err(Self::for_part(part)(name, value.to_string(), "which is no probability", "give a part from 0 to 1"))
    }
}
