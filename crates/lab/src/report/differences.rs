//! How a run differs from the whole experiment, and what its report says of that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What does not change the meaning of a figure: fewer runs leave more of it to chance.
const HARMLESS_OPTION: &str = "--runs ";

/// How far an experiment had come as it was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interruption {
    /// Runs that were made.
    pub runs: usize,
    /// Runs that there are.
    pub of_runs: usize,
}

impl Interruption {
    pub(super) fn note(self) -> String {
        format!("{self}: all figures are of these alone; the same command goes on with the others")
    }
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} runs, interrupted", self.runs, self.of_runs)
    }
}

/// Which options took the place of what was published, if any.
pub(super) fn describe_replaced(options: &[String]) -> Option<String> {
    (!options.is_empty()).then(|| format!("not as the section [as-published] has it: {}", options.join(", ")))
}

/// Why what a paper states cannot be judged by such a run, if it cannot.
pub(super) fn reason_for_no_verdict(interrupted: Option<Interruption>, options: &[String]) -> Option<String> {
    let others: Vec<_> = options.iter().filter(|option| !option.starts_with(HARMLESS_OPTION)).cloned().collect();
    let replaced = (!others.is_empty()).then(|| format!("it is about another run than one with {}", others.join(", ")));
    interrupted.map(|interrupted| interrupted.to_string()).or(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_runs_can_be_judged_and_other_runs_cannot() {
        let options = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(reason_for_no_verdict(None, &options(&["--runs 1"])), None);
        let reason = reason_for_no_verdict(None, &options(&["--runs 1", "--duration 5 s"])).unwrap();
        assert_eq!(reason, "it is about another run than one with --duration 5 s");
        let interrupted = Some(Interruption { runs: 51, of_runs: 128 });
        assert_eq!(reason_for_no_verdict(interrupted, &[]).unwrap(), "51 of 128 runs, interrupted");
    }
}
