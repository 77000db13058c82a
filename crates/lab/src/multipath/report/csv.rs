//! The rows of a report as CSV: a line for each run; the field names are JSON's.

use crate::multipath::row::MultipathRow;

/// A line for each run: the field names are JSON's.
pub(super) fn rows_csv(rows: &[MultipathRow]) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "case",
        "contender",
        "run",
        "goodput_bits_per_second",
        "share_of_sum_ratio",
        "framing_ratio",
        "share_of_framing_ratio",
        "retransmitted_segments",
        "received_packets",
        "reordered_packets",
        "median_extent_packets",
        "p95_extent_packets",
        "max_extent_packets",
        "lost_packets",
        "longest_gap_seconds",
        "sparse_median_seconds",
        "sparse_p99_seconds",
        "sparse_added_p99_seconds",
        "echo_median_seconds",
        "echo_p99_seconds",
        "echo_unanswered_ratio",
        "recovery_seconds",
        "congestion_control",
        "lower_congestion_control",
        "repeats",
        "disturbed",
        "lateness_p99_seconds",
    ])?;
    for row in rows {
        let (order, sparse) = (row.order, row.sparse_delay);
        writer.serialize((
            (&row.case, &row.contender, row.run),
            (row.goodput_bits_per_second, row.share_of_sum_ratio, row.framing_ratio, row.share_of_framing_ratio),
            (row.retransmitted_segments, order.map(|o| o.packets), order.map(|o| o.reordered_packets)),
            (
                order.and_then(|o| o.median_extent_packets),
                order.and_then(|o| o.p95_extent_packets),
                order.and_then(|o| o.max_extent_packets),
            ),
            (row.lost_packets, row.longest_gap_seconds),
            (sparse.map(|d| d.median_seconds), sparse.map(|d| d.p99_seconds), row.sparse_added_p99_seconds),
            (
                row.echo.map(|echo| echo.round_trips.median_seconds),
                row.echo.map(|echo| echo.round_trips.p99_seconds),
                row.echo.map(|echo| echo.unanswered_ratio),
                row.recovery_seconds,
                &row.congestion_control,
                &row.lower_congestion_control,
            ),
            (row.repeats, row.disturbed, row.lateness_p99_seconds),
        ))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Goodput by the length of writes: a line for each; none where that was not varied.
pub(super) fn blocks_csv(rows: &[MultipathRow]) -> Result<Option<String>, Box<dyn std::error::Error>> {
    if rows.iter().all(|row| row.blocks.is_empty()) {
        return Ok(None);
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["case", "contender", "run", "block_bytes", "no_delay", "goodput_bits_per_second"])?;
    for row in rows {
        for rate in &row.blocks {
            let own = (&row.case, &row.contender, row.run);
            writer.serialize((own, rate.block_bytes, rate.no_delay, rate.goodput_bits_per_second))?;
        }
    }
    Ok(Some(String::from_utf8(writer.into_inner()?)?))
}
