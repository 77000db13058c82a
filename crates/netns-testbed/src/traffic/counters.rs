use crate::network::{Host, NetworkError};
use kumade_net::SetupError;
use std::fs;
use std::io;

/// TCP segments that a host has sent more than once, of all its connections.
///
/// # Errors
/// The system does not tell.
pub fn retransmitted_segments(host: &Host) -> Result<u64, NetworkError> {
    const FILE: &str = "/proc/thread-self/net/snmp";
    let text = read(host, FILE)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let value = lines.next().zip(lines.next()).and_then(|(names, values)| {
        let place = names.split_whitespace().position(|name| name == "RetransSegs")?;
        values.split_whitespace().nth(place)?.parse().ok()
    });
    value.ok_or_else(|| unreadable(FILE))
}

/// Packets that have arrived at a host by that interface.
///
/// # Errors
/// There is no such interface.
pub fn received_packets(host: &Host, interface: &str) -> Result<u64, NetworkError> {
    // Bytes stand before packets.
    counter(host, interface, 1)
}

/// Packets that have left a host by that interface.
///
/// # Errors
/// There is no such interface.
pub(crate) fn sent_packets(host: &Host, interface: &str) -> Result<u64, NetworkError> {
    // Behind eight numbers of what has arrived.
    counter(host, interface, 9)
}

fn counter(host: &Host, interface: &str, place: usize) -> Result<u64, NetworkError> {
    const FILE: &str = "/proc/thread-self/net/dev";
    let text = read(host, FILE)?;
    let counters = text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    let count = counters.and_then(|counters| counters.split_whitespace().nth(place)?.parse().ok());
    count.ok_or_else(|| unreadable(FILE))
}

fn read(host: &Host, file: &'static str) -> Result<String, NetworkError> {
    let text = host.namespace.run(|| fs::read_to_string(file))?;
    Ok(text.map_err(|error| SetupError::new(format!("read {file}"), error))?)
}

fn unreadable(file: &str) -> NetworkError {
    SetupError::new(format!("find a counter in {file}"), io::ErrorKind::InvalidData).into()
}
