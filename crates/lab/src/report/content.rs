use super::head::DocumentHead;
use super::table::Table;

/// What the terminal and the HTML page both show of a report.
pub(crate) struct ReportContent<'a> {
    pub(crate) head: DocumentHead<'a>,
    /// The network and its traffic in one line.
    pub(crate) setting: String,
    /// What rates count.
    pub(crate) rate_definition: &'static str,
    /// The published experiment in one line.
    pub(crate) paper: Option<String>,
    /// What the paper states, beside what came out here, one sentence each.
    pub(crate) statements: Vec<String>,
    pub(crate) tables: Vec<Table>,
    /// The results, one sentence each.
    pub(crate) conclusions: Vec<String>,
    /// What the numbers do not show: failures, warnings, disturbed runs.
    pub(crate) notes: Vec<String>,
}
