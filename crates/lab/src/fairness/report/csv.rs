//! The rows of a report as CSV: a line for each run and group; the field names are JSON's.

use crate::fairness::row::FairnessRow;

/// A line for each run and group: the field names are JSON's.
pub(super) fn rows_csv(rows: &[FairnessRow]) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "case",
        "added_delay_seconds",
        "discipline",
        "run",
        "jain_index",
        "utilisation_ratio",
        "goodput_bits_per_second",
        "group",
        "connections",
        "mean_goodput_bits_per_second",
        "queueing_median_seconds",
        "queueing_p95_seconds",
        "queueing_p99_seconds",
        "offered_packets",
        "queue_full_packets",
        "managed_packets",
        "marked_packets",
        "repeats",
        "disturbed",
        "lateness_p99_seconds",
    ])?;
    for row in rows {
        for group in &row.groups {
            let (waits, drops) = (row.queueing, row.drops);
            writer.serialize((
                (&row.case, row.added_delay_seconds, &row.discipline, row.run),
                (row.jain_index, row.utilisation_ratio, row.goodput_bits_per_second),
                (&group.group, group.connections, group.mean_goodput_bits_per_second),
                (waits.map(|w| w.median_seconds), waits.map(|w| w.p95_seconds), waits.map(|w| w.p99_seconds)),
                (drops.offered_packets, drops.queue_full_packets, drops.managed_packets, drops.marked_packets),
                (row.repeats, row.disturbed, row.lateness_p99_seconds),
            ))?;
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
