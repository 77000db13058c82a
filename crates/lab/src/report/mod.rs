//! What all reports share: the files that they are written to, tables, plots, and how a terminal and a page show them.

pub(crate) mod cases;
mod content;
mod document;
mod html;
mod notes;
pub(crate) mod plot;
#[cfg(test)]
pub(crate) mod schema;
mod table;
mod terminal;

pub(crate) use content::ReportContent;
pub(crate) use document::{DocumentParts, read_report};
pub use document::{ReportDocument, now_utc, prepare_directory};
pub(crate) use notes::describe_disturbances;
pub(crate) use table::Table;
pub(crate) use terminal::align_columns;
pub use terminal::printable;
