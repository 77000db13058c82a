//! A report as one HTML page.

use super::content::ReportContent;
use super::plot::Plot;
use askama::Template;

#[derive(Template)]
#[template(path = "report.html")]
struct HtmlPage<'a> {
    content: &'a ReportContent<'a>,
    plots: &'a [Plot],
}

/// The page.
pub(crate) fn render(content: &ReportContent<'_>, plots: &[Plot]) -> askama::Result<String> {
    HtmlPage { content, plots }.render()
}
