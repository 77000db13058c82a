//! Metrics that gateways and tunnels have in common.

use crate::status::refused::RefusedTraffic;
use crate::status::traffic::Traffic;
use kumade_daemon::metrics::{Counter, Encoder, LabelledItems};
use std::fmt;

/// The beginning of the names, the end of the help texts, value.
pub type TrafficCounter<T> = (&'static str, &'static str, fn(&T) -> &Traffic);

const REFUSED_COUNTERS: [Counter<RefusedTraffic>; 1] = [(
    "wrong_key_handshakes",
    "Handshakes of senders that have no key of a peer, or take this end for another",
    |refused| refused.wrong_key_handshakes,
)];

/// Packets and bytes, a counter each.
///
/// # Errors
/// Where they cannot be written.
pub fn encode_traffic<T>(
    encoder: &mut Encoder<'_, '_>,
    of: &LabelledItems<'_, T>,
    kinds: &[TrafficCounter<T>],
) -> fmt::Result {
    type TrafficPart = fn(&Traffic) -> u64;
    let units: [(&str, &str, TrafficPart); 2] =
        [("packets", "Packets", |traffic| traffic.packets), ("bytes", "Bytes of IP packets", |traffic| traffic.bytes)];
    for (kind, what, traffic) in kinds {
        for (unit, subject, value) in units {
            let (name, help) = (format!("{kind}_{unit}"), format!("{subject} {what}"));
            let counts = of.iter().map(|(labels, item)| (labels.clone(), value(traffic(item))));
            encoder.encode_counts(&name, &help, counts)?;
        }
    }
    Ok(())
}

/// What was refused, by its cause.
///
/// # Errors
/// Where it cannot be written.
pub fn encode_refused(
    encoder: &mut Encoder<'_, '_>,
    of: (&'static str, &str),
    refused: &RefusedTraffic,
) -> fmt::Result {
    let help = "Packets and datagrams that were not carried";
    let causes = [
        ("unroutable", refused.unroutable_packets),
        ("foreign_source", refused.foreign_source_packets),
        ("datagram", refused.datagrams),
        ("handshake", refused.handshakes),
        ("output", refused.output_packets),
    ];
    let counts = causes.into_iter().map(|(cause, count)| (vec![of, ("cause", cause)], count));
    encoder.encode_counts("refused_packets", help, counts)?;
    encoder.encode_counters(&[(vec![of], refused)], &REFUSED_COUNTERS)
}
