//! What all reports share: the files that they are written to, tables, plots, and how a terminal and a page show them.

pub(crate) mod cases;
mod content;
mod csv;
mod document;
mod head;
mod html;
mod notes;
pub(crate) mod plot;
#[cfg(test)]
pub(crate) mod schema;
mod table;
mod terminal;

pub(crate) use csv::{CsvResult, to_csv};
pub(crate) use document::{Document, ReportParts, read_report, report_document};
pub use document::{ReportDocument, now_utc, prepare_directory};
pub(crate) use head::DocumentHead;
pub(crate) use notes::describe_disturbances;
pub(crate) use table::{Column, Table};
pub(crate) use terminal::align_columns;
pub use terminal::printable;
