//! What all reports share: the files that they are written to, tables, plots, and how a terminal and a page show them.

#[cfg(feature = "arrow")]
mod arrow;
pub(crate) mod cases;
mod cells;
mod content;
mod differences;
mod document;
mod head;
pub(crate) mod heat_map;
mod html;
mod notes;
pub(crate) mod plot;
#[cfg(test)]
pub(crate) mod schema;
mod statement;
mod table;
mod terminal;
mod values;

pub(crate) use cells::{decimals, format_mean, format_number, format_part, three_digits};
pub(crate) use differences::describe_options;
pub use differences::{Interruption, ReplacedOption};
pub(crate) use document::{Document, ReportParts, read_report, report_document};
pub use document::{ReportDocument, now_utc, prepare_directory};
pub(crate) use head::{DocumentHead, VIRTUAL_START};
pub(crate) use notes::describe_disturbances;
pub use statement::{Condition, Divisor, NumberRange, Scalar, Statement, StatementResult};
pub(crate) use table::{Column, Table};
pub(crate) use terminal::align_columns;
pub use terminal::printable;
pub(crate) use values::{CsvResult, Values};
