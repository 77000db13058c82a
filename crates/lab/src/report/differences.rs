//! How a run differs from the whole experiment, and what its report says of that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An option that takes the place of what was published, as the command line calls it, and its value.
pub type ReplacedOption = (&'static str, String);

/// What does not change the meaning of a figure: fewer runs, or other ones, leave it to chance.
const HARMLESS_OPTIONS: [&str; 2] = ["--runs", "--seed"];
/// What does not change that of a figure of one case.
const CASE_OPTION: &str = "--row";

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
        format!("{self}: all figures are of these alone")
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

/// Each in words.
pub(crate) fn describe_options(options: &[ReplacedOption]) -> Vec<String> {
    options.iter().map(|(option, value)| format!("{option} {value}")).collect()
}

/// Why what a paper states, of one case or of several, cannot be judged by such a run, if it cannot.
pub(super) fn reason_for_no_verdict(
    interrupted: Option<Interruption>,
    options: &[ReplacedOption],
    is_about_one_case: bool,
) -> Option<String> {
    let is_harmless = |option: &str| HARMLESS_OPTIONS.contains(&option) || is_about_one_case && option == CASE_OPTION;
    let others: Vec<_> = options.iter().filter(|(option, _)| !is_harmless(option)).cloned().collect();
    let others = describe_options(&others).join(", ");
    let replaced = (!others.is_empty()).then(|| format!("it is about another run than one with {others}"));
    interrupted.map(|interrupted| interrupted.to_string()).or(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_runs_can_be_judged_and_other_runs_cannot() {
        let (runs, row) = (("--runs", "1".to_owned()), ("--row", "3".to_owned()));
        let duration = ("--duration", "5 s".to_owned());
        assert_eq!(reason_for_no_verdict(None, &[runs.clone(), row.clone()], true), None);
        let reason = reason_for_no_verdict(None, &[runs.clone(), row], false).unwrap();
        assert_eq!(reason, "it is about another run than one with --row 3");
        let reason = reason_for_no_verdict(None, &[runs, duration], true).unwrap();
        assert_eq!(reason, "it is about another run than one with --duration 5 s");
        let interrupted = Some(Interruption { runs: 51, of_runs: 128 });
        assert_eq!(reason_for_no_verdict(interrupted, &[], true).unwrap(), "51 of 128 runs, interrupted");
    }
}
