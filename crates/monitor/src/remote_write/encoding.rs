//! Requests of the remote write protocol: `prometheus.WriteRequest` in protocol buffers, compressed with Snappy.
//!
//! <https://prometheus.io/docs/specs/prw/remote_write_spec/>: the labels of a series are sorted by name, its samples by time.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Names and values, sorted by name; the series' own name is `__name__`.
pub type SeriesLabels = Arc<Vec<(&'static str, String)>>;

/// A value at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Of which series.
    pub labels: SeriesLabels,
    /// Milliseconds since 1970 (UTC).
    pub time_millis: i64,
    /// Finite: receivers lose or misread others.
    pub value: f64,
}

/// Wire types.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const LENGTH_DELIMITED: u8 = 2;

/// The body of a request. The samples of a series are in the order of time.
pub fn encode_write_request(samples: &[Sample]) -> Vec<u8> {
    let mut series: BTreeMap<&[(&str, String)], Vec<&Sample>> = BTreeMap::new();
    samples.iter().for_each(|sample| series.entry(&sample.labels).or_default().push(sample));
    let mut request = Vec::new();
    for (labels, samples) in series {
        let mut encoded = Vec::new();
        for (name, value) in labels {
            let mut label = Vec::new();
            put_bytes(&mut label, 1, name.as_bytes());
            put_bytes(&mut label, 2, value.as_bytes());
            put_bytes(&mut encoded, 1, &label);
        }
        for sample in samples {
            let mut point = vec![1 << 3 | FIXED_64];
            point.extend(sample.value.to_le_bytes());
            point.push(2 << 3 | VARINT);
            put_varint(&mut point, sample.time_millis as u64);
            put_bytes(&mut encoded, 2, &point);
        }
        put_bytes(&mut request, 1, &encoded);
    }
    // It fails for more than 4 GB alone.
    snap::raw::Encoder::new().compress_vec(&request).unwrap_or_default()
}

fn put_bytes(to: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    to.push(field << 3 | LENGTH_DELIMITED);
    put_varint(to, bytes.len() as u64);
    to.extend(bytes);
}

fn put_varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_bytes_of_the_specification() {
        let labels = Arc::new(vec![("__name__", "up".to_owned()), ("a", "b".to_owned())]);
        let sample = |time_millis, value| Sample { labels: labels.clone(), time_millis, value };
        let request = encode_write_request(&[sample(1, 1.0), sample(300, 0.5)]);
        let plain = snap::raw::Decoder::new().decompress_vec(&request).unwrap();
        // As protoc writes it.
        let labels = b"\x0a\x0e\x0a\x08__name__\x12\x02up\x0a\x06\x0a\x01a\x12\x01b";
        let first = b"\x12\x0b\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x01";
        let second = b"\x12\x0c\x09\x00\x00\x00\x00\x00\x00\xe0\x3f\x10\xac\x02";
        let series = [&labels[..], first, second].concat();
        assert_eq!(plain, [&[0x0a, series.len() as u8], &series[..]].concat());
    }

    #[test]
    fn samples_of_a_series_go_together() {
        let labels = |name: &str| Arc::new(vec![("__name__", name.to_owned())]);
        let (one, other) = (labels("one"), labels("other"));
        let sample = |labels: &SeriesLabels, time_millis| Sample { labels: labels.clone(), time_millis, value: 0.0 };
        let mixed = [sample(&one, 1), sample(&other, 1), sample(&one, 2)];
        let sorted = [sample(&one, 1), sample(&one, 2), sample(&other, 1)];
        assert_eq!(encode_write_request(&mixed), encode_write_request(&sorted));
    }
}
