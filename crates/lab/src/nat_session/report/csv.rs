//! The rows of a report as CSV: a line for each session; the field names are JSON's.

use crate::nat_session::row::NatSessionRow;

pub(super) fn rows_csv(rows: &[NatSessionRow]) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "case",
        "run",
        "flow",
        "asked_seconds",
        "granted_seconds",
        "opened_seconds",
        "last_packet_seconds",
        "left_seconds",
        "removed_seconds",
        "forgotten_seconds",
        "end",
        "idle_ratio",
        "requests",
        "divided_packets",
        "restored_packets",
        "first_packet_wait_seconds",
        "killed_seconds",
        "sent_packets",
        "received_packets",
        "altered_packets",
        "lost_packets",
        "repeats",
        "disturbed",
        "lateness_p99_seconds",
    ])?;
    for row in rows {
        for flow in &row.flows {
            for session in &flow.sessions {
                writer.serialize((
                    (&row.case, row.run, &flow.flow),
                    (session.asked_seconds, session.granted_seconds, session.opened_seconds),
                    (session.last_packet_seconds, session.left_seconds, session.removed_seconds),
                    (session.forgotten_seconds, session.end, session.idle_ratio, session.requests),
                    (
                        session.divided_packets,
                        session.restored_packets,
                        flow.first_packet_wait_seconds,
                        flow.killed_seconds,
                    ),
                    (flow.sent_packets, flow.received_packets, flow.altered_packets, flow.lost_packets),
                    (row.repeats, row.disturbed, row.lateness_p99_seconds),
                ))?;
            }
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
