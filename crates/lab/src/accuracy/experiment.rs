use super::full_measurement::AccuracyLimits;
use super::published::PublishedResult;
use super::scenario::AccuracyScenario;
use crate::paper::Paper;

/// An experiment on accuracy: estimates of one or several paths beside the truth. It comes from a scenario file, read
/// and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq)]
pub struct AccuracyExperiment {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The published experiment that this one repeats.
    pub paper: Option<Paper>,
    /// The figures published of it.
    pub published: Vec<PublishedResult>,
    /// The errors and times that it must not exceed.
    pub limits: AccuracyLimits,
    /// The path and its traffic as the file states them first, before anything is varied.
    pub base_scenario: AccuracyScenario,
    /// What is measured, in the order of running.
    pub scenarios: Vec<AccuracyScenario>,
    /// Whether the file asks for cross traffic by TCP, which is left out, as there is none in virtual time.
    pub excludes_tcp: bool,
}
