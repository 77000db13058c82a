//! A report as one HTML page.

use super::content::Content;
use super::plot::Plot;
use askama::Template;

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    content: &'a Content<'a>,
    plots: &'a [Plot],
}

/// The page.
pub(crate) fn render(content: &Content<'_>, plots: &[Plot]) -> askama::Result<String> {
    Page { content, plots }.render()
}
