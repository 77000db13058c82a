use crate::figures::Figures;
use crate::{ArchiveError, PairId};
use kumade_units::Time;

/// Longer documents are refused: `kumade.measure/1` has some ten kilobytes.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// An exclusive run that has ended, as it is handed in.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Of which pair.
    pub pair: PairId,
    /// When it began, UTC.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
    /// The document as it came: `kumade.measure/1`, or any other JSON object with a `schema`.
    pub document: String,
}

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its number.
    pub id: i64,
    /// Of which pair.
    pub pair: PairId,
    /// When it began, UTC.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
    /// The name of its document's schema.
    pub schema: String,
    /// What was read from the document, by name. In lists of runs, and once the document is too old: estimates and bounds of
    /// rates, medians of delays, loss ratios, reasons.
    pub figures: Figures,
}

impl NewRun {
    /// The document's schema, and the figures that are kept longer.
    pub(crate) fn read(&self) -> Result<(String, Figures), ArchiveError> {
        if self.document.len() > MAX_DOCUMENT_BYTES {
            return Err(ArchiveError::Document(format!("it has more than {MAX_DOCUMENT_BYTES} bytes")));
        }
        let document: serde_json::Value =
            serde_json::from_str(&self.document).map_err(|error| ArchiveError::Document(error.to_string()))?;
        let schema = document.get("schema").and_then(|schema| schema.as_str());
        let schema = schema.ok_or_else(|| ArchiveError::Document("it names no `schema`".to_owned()))?;
        Ok((schema.to_owned(), Figures::from_document(&document).brief()))
    }
}
