//! The lines `kumade.measure-stream/1`: the events of a measurement as they happen, then its result. Their JSON Schema
//! is `schemas/kumade.measure-stream.1.json`.

use super::document::{ErrorReport, Report};
use super::schema::published;
use crate::event::Event;
use schemars::JsonSchema;
use serde::Serialize;

/// The name of the lines' schema.
const STREAM_SCHEMA: &str = "kumade.measure-stream/1";

/// One line.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StreamLine<'l> {
    /// `kumade.measure-stream/1`.
    schema: &'static str,
    #[serde(flatten)]
    content: Content<'l>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
enum Content<'l> {
    Event(&'l Event),
    End(End<'l>),
}

/// The last line.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum End<'l> {
    /// The measurement has ended with a result.
    Report {
        /// The document.
        report: &'l Report,
    },
    /// The measurement failed.
    Error(ErrorReport),
}

impl<'l> StreamLine<'l> {
    /// The line of an event.
    pub fn from_event(event: &'l Event) -> Self {
        StreamLine { schema: STREAM_SCHEMA, content: Content::Event(event) }
    }

    /// The last line of a measurement that has a result.
    pub fn end(report: &'l Report) -> Self {
        StreamLine { schema: STREAM_SCHEMA, content: Content::End(End::Report { report }) }
    }

    /// The last line of a measurement that failed.
    pub fn failure(error: ErrorReport) -> Self {
        StreamLine { schema: STREAM_SCHEMA, content: Content::End(End::Error(error)) }
    }

    /// The JSON Schema of each line, as published.
    pub fn json_schema() -> serde_json::Value {
        published::<StreamLine<'_>>(STREAM_SCHEMA)
    }
}
