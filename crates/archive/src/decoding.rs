//! What can be read of stored bytes. Damage is told to the log and left out: the rest of the archive goes on.

use crate::PairId;
use kumade_sketch::{Block, BucketedDelay, Layer, PacketReader, Sample};

/// The packets of an hour.
pub(crate) fn read_packets(data: &[u8]) -> Vec<Sample<BucketedDelay>> {
    let samples = PacketReader::new(data).and_then(|reader| reader.collect());
    samples.unwrap_or_else(|error| {
        tracing::error!(%error, "packets of an hour are damaged: they are left out");
        Vec::new()
    })
}

/// A block.
pub(crate) fn decode_block(layer: Layer, pair: PairId, number: i64, data: &[u8]) -> Option<Block> {
    let block = Block::decode(layer, number, data);
    block
        .inspect_err(
            |error| tracing::error!(?layer, pair = pair.0, number, %error, "a block is damaged: it is left out"),
        )
        .ok()
}
