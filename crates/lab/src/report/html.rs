//! A report as one HTML page.

use super::content::Content;
use super::plot::Plot;
use crate::error::ReportError;
use askama::Template;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    content: &'a Content<'a>,
    plots: &'a [Plot],
}

/// The page.
pub(crate) fn render(content: &Content<'_>, plots: &[Plot]) -> Result<String, ReportError> {
    Page { content, plots }.render().map_err(ReportError::generating("the HTML page"))
}
