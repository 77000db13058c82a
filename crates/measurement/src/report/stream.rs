//! The lines `kumade.measure-stream/1`: what happens during a measurement, as it happens. Their JSON Schema is
//! `schemas/kumade.measure-stream.1.json`.

use super::document::Report;
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
    /// What the measurement came to.
    Report {
        /// The document.
        report: &'l Report,
    },
    /// The measurement failed.
    Error {
        /// Why, and what to try.
        message: String,
    },
}

impl<'l> StreamLine<'l> {
    /// Of something that happened.
    pub fn of(event: &'l Event) -> Self {
        StreamLine { schema: STREAM_SCHEMA, content: Content::Event(event) }
    }

    /// Of the end.
    pub fn end(report: &'l Report) -> Self {
        StreamLine { schema: STREAM_SCHEMA, content: Content::End(End::Report { report }) }
    }

    /// Of a measurement that failed: why, and what to try.
    pub fn failure(message: String) -> Self {
        StreamLine { schema: STREAM_SCHEMA, content: Content::End(End::Error { message }) }
    }

    /// The JSON Schema of each line, as published.
    pub fn json_schema() -> serde_json::Value {
        published::<StreamLine<'_>>(STREAM_SCHEMA)
    }
}
