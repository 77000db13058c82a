//! A report as one HTML page.

use super::plot::{self, Plot};
use super::tables::{self, Table};
use super::{Report, ReportError, make};
use askama::Template;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    report: &'a Report,
    setting: String,
    plots: Vec<Plot>,
    tables: Vec<Table>,
    verdicts: Vec<String>,
    notes: Vec<String>,
}

/// The whole report.
pub(super) fn render(report: &Report) -> Result<String, ReportError> {
    let page = Page {
        report,
        setting: tables::setting(report),
        plots: plot::all(report).map_err(|e| make("a plot", &e))?,
        tables: tables::all(report),
        verdicts: tables::verdicts(report),
        notes: tables::notes(report),
    };
    page.render().map_err(|e| make("the HTML page", &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        for report in [samples::accuracy(), samples::firewall(), samples::cwnd()] {
            let page = render(&report).unwrap();
            assert!(page.contains("<svg") && page.contains("<table"));
            for outside in ["src=", "@import", "url(", "<link", "<script"] {
                assert!(!page.contains(outside), "{outside}");
            }
        }
    }

    #[test]
    fn text_from_the_network_stays_text() {
        let mut report = samples::firewall();
        report.rows[0].reason = Some("<script>alert(1)</script>".into());
        let page = render(&report).unwrap();
        assert!(!page.contains("<script>"));
    }
}
