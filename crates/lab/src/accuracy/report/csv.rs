//! The rows of a report as CSV: the field names are JSON's, with the parts of intervals as columns of their own.

use crate::accuracy::row::Row;

/// A column, and what of a row it shows; empty for what JSON calls null.
type CsvColumn = (&'static str, fn(&Row) -> String);

/// One line for each run, below the names of the columns.
pub(super) fn rows_csv(rows: &[Row]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.iter().map(|(name, _)| name))?;
    for row in rows {
        writer.write_record(COLUMNS.iter().map(|(_, cell)| cell(row)))?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const COLUMNS: [CsvColumn; 51] = [
    ("bottleneck_bits_per_second", |row| row.bottleneck_bits_per_second.to_string()),
    ("burst_bytes", |row| optional_text(row.burst_bytes)),
    ("peak_bits_per_second", |row| optional_text(row.peak_bits_per_second)),
    ("downstream_bits_per_second", |row| optional_text(row.downstream_bits_per_second)),
    ("downstream_cross_bits_per_second", |row| optional_text(row.downstream_cross_bits_per_second)),
    ("downstream_cross_kind", |row| optional_text(row.downstream_cross_kind)),
    ("cross_bits_per_second", |row| row.cross_bits_per_second.to_string()),
    ("cross_kind", |row| row.cross_kind.to_string()),
    ("transport", |row| row.transport.to_string()),
    ("method", |row| row.method.clone()),
    ("direction", |row| row.direction.to_string()),
    ("run", |row| row.run.to_string()),
    ("truth_bits_per_second", |row| row.truth_bits_per_second.to_string()),
    ("available_bits_per_second", |row| optional_text(row.available_bits_per_second.map(|i| i.value))),
    ("available_low_bits_per_second", |row| optional_text(row.available_bits_per_second.map(|i| i.low))),
    ("available_high_bits_per_second", |row| optional_text(row.available_bits_per_second.map(|i| i.high))),
    ("confidence", |row| optional_text(row.available_bits_per_second.map(|i| i.confidence))),
    ("error_bits_per_second", |row| optional_text(row.error_bits_per_second)),
    ("spread_bits_per_second", |row| optional_text(row.spread_bits_per_second)),
    ("connections", |row| row.connections.to_string()),
    ("packets_sent", |row| row.packets_sent.to_string()),
    ("bytes_sent", |row| row.bytes_sent.to_string()),
    ("duration_seconds", |row| row.duration_seconds.to_string()),
    ("full_seconds", |row| optional_text(row.full_seconds)),
    ("capacity_bits_per_second", |row| optional_text(row.capacity_bits_per_second.map(|i| i.value))),
    ("capacity_low_bits_per_second", |row| optional_text(row.capacity_bits_per_second.map(|i| i.low))),
    ("capacity_high_bits_per_second", |row| optional_text(row.capacity_bits_per_second.map(|i| i.high))),
    ("capacity_reason", |row| optional_text(row.capacity_reason.as_ref())),
    ("shaped_rate_bits_per_second", |row| optional_text(row.shaper.map(|s| s.committed_rate.value))),
    ("shaped_rate_low_bits_per_second", |row| optional_text(row.shaper.map(|s| s.committed_rate.low))),
    ("shaped_rate_high_bits_per_second", |row| optional_text(row.shaper.map(|s| s.committed_rate.high))),
    ("shaped_burst_bytes", |row| optional_text(row.shaper.map(|s| s.burst_bytes.value))),
    ("shaped_burst_low_bytes", |row| optional_text(row.shaper.map(|s| s.burst_bytes.low))),
    ("shaped_burst_high_bytes", |row| optional_text(row.shaper.map(|s| s.burst_bytes.high))),
    ("shaped_link_bits_per_second", |row| optional_text(row.shaper.and_then(|s| s.peak_rate).map(|i| i.value))),
    ("shaped_link_low_bits_per_second", |row| optional_text(row.shaper.and_then(|s| s.peak_rate).map(|i| i.low))),
    ("shaped_link_high_bits_per_second", |row| optional_text(row.shaper.and_then(|s| s.peak_rate).map(|i| i.high))),
    ("up_delay_truth_seconds", |row| optional_text(row.up_delay_seconds.map(|d| d.truth))),
    ("up_delay_seconds", |row| optional_text(row.up_delay_seconds.map(|d| d.value))),
    ("up_delay_low_seconds", |row| optional_text(row.up_delay_seconds.map(|d| d.low))),
    ("up_delay_high_seconds", |row| optional_text(row.up_delay_seconds.map(|d| d.high))),
    ("down_delay_truth_seconds", |row| optional_text(row.down_delay_seconds.map(|d| d.truth))),
    ("down_delay_seconds", |row| optional_text(row.down_delay_seconds.map(|d| d.value))),
    ("down_delay_low_seconds", |row| optional_text(row.down_delay_seconds.map(|d| d.low))),
    ("down_delay_high_seconds", |row| optional_text(row.down_delay_seconds.map(|d| d.high))),
    ("trains", |row| row.trains.to_string()),
    ("trains_rejected", |row| row.trains_rejected.to_string()),
    ("repeats", |row| row.repeats.to_string()),
    ("disturbed", |row| row.disturbed.to_string()),
    ("max_lateness_seconds", |row| optional_text(row.max_lateness_seconds)),
    ("reason", |row| optional_text(row.reason.as_ref())),
];

fn optional_text(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::sample_reports;

    fn cell(text: &str, record: usize, column: &str) -> String {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let place = reader.headers().unwrap().iter().position(|header| header == column).unwrap();
        reader.records().nth(record).unwrap().unwrap()[place].to_owned()
    }

    #[test]
    fn a_line_for_each_run_and_an_empty_cell_for_null() {
        let text = rows_csv(&sample_reports::firewall_report().rows).unwrap();
        assert_eq!(text.lines().count(), 1 + 2);
        assert_eq!(cell(&text, 0, "available_bits_per_second"), "");
        assert_eq!(cell(&text, 1, "available_bits_per_second"), "69850000");
        assert_eq!(cell(&text, 1, "error_bits_per_second"), "-150000");
        assert!(cell(&text, 0, "reason").contains("UDP is rejected"));
    }

    #[test]
    fn full_measurements_have_their_columns() {
        let text = rows_csv(&sample_reports::full_report().rows).unwrap();
        assert_eq!(cell(&text, 0, "capacity_bits_per_second"), "101000000");
        assert_eq!(cell(&text, 0, "capacity_low_bits_per_second"), "98980000");
        assert_eq!(cell(&text, 0, "up_delay_truth_seconds"), "0.005");
        assert_eq!(cell(&text, 2, "capacity_bits_per_second"), "");
        assert_eq!(cell(&text, 2, "capacity_reason"), "the path is too busy");
    }
}
