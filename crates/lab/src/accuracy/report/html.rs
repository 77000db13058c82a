//! A report as one HTML page.

use super::plots::Plot;
use super::{Content, ReportError, make};
use askama::Template;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    content: &'a Content<'a>,
    plots: &'a [Plot],
}

/// The whole report.
pub(crate) fn render(content: &Content<'_>, plots: &[Plot]) -> Result<String, ReportError> {
    Page { content, plots }.render().map_err(|e| make("the HTML page", &e))
}

#[cfg(test)]
mod tests {
    use crate::accuracy::report::{Document, samples};

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        for report in [samples::accuracy(), samples::firewall(), samples::cwnd(), samples::whole()] {
            let page = report.to_html().unwrap();
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
        let page = report.to_html().unwrap();
        assert!(!page.contains("<script>"));
    }
}
