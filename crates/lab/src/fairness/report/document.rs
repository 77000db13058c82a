use super::setting;
use crate::fairness::row::FairnessRow;
use crate::fairness::scenario::FairnessExperiment;
use crate::fairness::summary::FairnessSummary;
use crate::report::report_document;

report_document! {
    /// The results of an experiment on fairness.
    FairnessReport, "kumade.lab.fairness/1": |experiment: &FairnessExperiment, given: Vec<FairnessRow>|, FairnessRow;
    /// The network, in words.
    setting: String = setting::describe_setting(experiment),
    /// Whether it ran in virtual time, with the simulator's TCP; else over the kernel's.
    #[serde(rename = "virtual")]
    virtual_time: bool = experiment.virtual_time,
    /// How long connections ran before their shares were measured.
    warm_up_seconds: f64 = experiment.warm_up.as_secs_f64(),
    /// How long shares were measured.
    duration_seconds: f64 = experiment.duration.as_secs_f64(),
    /// One for each run, in the order of running.
    rows: Vec<FairnessRow> = given,
    /// The rows summed up.
    summary: FairnessSummary = FairnessSummary::from_rows(&rows, experiment),
}
