//! What holds for any bytes: shared by the property tests, the replay of the corpus and the fuzz target.

use kumade_sketch::{Block, ChunkReader, ChunkWriter, Layer, PacketReader, encode_packets};

/// Reads the bytes as each of the formats. What can be read comes back the same once it is written again.
pub fn kept_probes(bytes: &[u8]) {
    let samples: Vec<_> = ChunkReader::new(bytes).map_while(Result::ok).take(100_000).collect();
    let mut writer = ChunkWriter::default();
    samples.iter().for_each(|sample| writer.push(sample));
    let again: Vec<_> = ChunkReader::new(writer.bytes()).collect::<Result<_, _>>().expect("what was written is read");
    assert_eq!(again, samples);
    if let Ok(reader) = PacketReader::new(bytes)
        && let Ok(samples) = reader.collect::<Result<Vec<_>, _>>()
    {
        let packed = encode_packets(&samples);
        let again = PacketReader::new(&packed).expect("what was written is read");
        assert_eq!(again.collect::<Result<Vec<_>, _>>().as_ref(), Ok(&samples));
    }
    for layer in Layer::ALL {
        if let Ok(block) = Block::decode(layer, 7, bytes) {
            assert_eq!(Block::decode(layer, 7, &block.encode()).as_ref(), Ok(&block));
        }
    }
}
