//! Documents of runs as they came, compressed: with one document known to both sides, their many names cost next to nothing.

use crate::ArchiveError;
use crate::run::MAX_DOCUMENT_BYTES;
use zstd::bulk::{Compressor, Decompressor};

/// What the first byte says of how a document is compressed.
const WITH_DICTIONARY: u8 = 1;

/// A document of `kumade.measure/1`. It must never change: what was compressed with it could not be read any more. A better
/// one gets a number of its own.
const DICTIONARY: &[u8] = include_bytes!("document_dictionary.json");

/// About a millisecond each; lower levels need a tenth more room.
const LEVEL: i32 = 19;

pub(crate) fn compress_document(document: &str) -> Result<Vec<u8>, ArchiveError> {
    let compressed = Compressor::with_dictionary(LEVEL, DICTIONARY).and_then(|mut compressor| {
        let mut compressed = compressor.compress(document.as_bytes())?;
        compressed.insert(0, WITH_DICTIONARY);
        Ok(compressed)
    });
    compressed.map_err(|error| ArchiveError::Document(error.to_string()))
}

pub(crate) fn decompress_document(run: i64, bytes: &[u8]) -> Result<String, ArchiveError> {
    let damaged = |cause: String| ArchiveError::Document(format!("that of run {run} is damaged: {cause}"));
    let content = match bytes.split_first() {
        Some((&WITH_DICTIONARY, content)) => content,
        _ => return Err(damaged("it was compressed by a later version".to_owned())),
    };
    let unpacked = Decompressor::with_dictionary(DICTIONARY)
        .and_then(|mut decompressor| decompressor.decompress(content, MAX_DOCUMENT_BYTES));
    let unpacked = unpacked.map_err(|error| damaged(error.to_string()))?;
    String::from_utf8(unpacked).map_err(|error| damaged(error.to_string()))
}
