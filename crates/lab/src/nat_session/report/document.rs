use super::setting;
use crate::nat_session::row::NatSessionRow;
use crate::nat_session::scenario::NatSessionExperiment;
use crate::nat_session::summary::NatSessionSummary;
use crate::report::report_document;

report_document! {
    /// The results of an experiment on NAT sessions.
    NatSessionReport, "kumade.lab.nat-session/1": |experiment: &NatSessionExperiment, given: Vec<NatSessionRow>|, NatSessionRow;
    /// The paths and the traffic, in words.
    setting: String = setting::describe_setting(experiment),
    /// Whether it ran in virtual time; else between real gateways.
    #[serde(rename = "virtual")]
    virtual_time: bool = experiment.virtual_time,
    /// A session ends when no packet of its flow has passed for so long.
    idle_seconds: f64 = experiment.idle.as_secs_f64(),
    /// One for each run, in the order of running.
    rows: Vec<NatSessionRow> = given,
    /// The rows summed up.
    summary: NatSessionSummary = NatSessionSummary::from_rows(&rows, experiment),
}
