use super::config::StampConfig;
use super::deliveries::count_deliveries;
use super::exchange::StampExchange;
use crate::cancel::StopCondition;
use crate::clocks;
use crate::error::Error;
use crate::resolve::resolve;
use kumade_estimate::delay::round_trips;
use kumade_measurement::report::{DelayFigures, DelayReport, SCHEMA};
use kumade_measurement::{Clocks, Report, report_one_way};
use kumade_net::datagram;
use kumade_probe_train::ClockError;
use kumade_units::Span;
use kumade_wire::stamp::ErrorEstimate;
use std::io;

/// Minimum plausible clock error: a reflector that states less does not fill in the field correctly.
const MIN_CLOCK_ERROR: Span = Span::from_micros(1);

/// Measures round-trip and one-way delay, loss, duplication and reordering to any STAMP reflector.
///
/// # Errors
/// If the host name can't be resolved, no reflector answers, or the measurement is cancelled.
pub fn measure_stamp(config: &StampConfig) -> Result<Report, Error> {
    let started = jiff::Timestamp::now();
    let limit = StopCondition::new(&config.cancel, None);
    let addresses = resolve(&config.host, config.port, config.family, &limit)?;
    let failed = |address| move |cause| Error::NoReflector { address, cause };
    let socket = datagram::connect(&addresses, &config.binding).map_err(failed(addresses[0]))?;
    let address = socket.peer_addr().map_err(failed(addresses[0]))?;
    let known = clocks::read_host_clocks(&config.ntp, &limit)?.clocks;
    let mine = ErrorEstimate::new(known.near.is_some(), known.near_error().unwrap_or(Span::from_secs(1)));
    let mut exchange = StampExchange::new(socket, config, mine);
    exchange.run(config, &limit).map_err(failed(address))?;
    limit.check()?;
    if exchange.replies().is_empty() {
        return Err(failed(address)(io::Error::new(io::ErrorKind::TimedOut, "no answer")));
    }
    let known = Clocks { far: reflector_clock_error(&exchange), ..known };
    Ok(Report {
        schema: SCHEMA.to_owned(),
        peer: address.to_string(),
        started: format!("{started:.3}"),
        up: None,
        down: None,
        delay: Some(delay_report(config, &exchange, &known)),
        error: None,
    })
}

/// The largest error that the reflector states of its clock; none if its clock is unsynchronised.
fn reflector_clock_error(exchange: &StampExchange) -> Option<ClockError> {
    let replies = || exchange.probes().iter().filter_map(|probe| probe.reply);
    let follows_utc =
        replies().all(|reply| reply.error_estimate.synchronised && reply.error_estimate.error() >= MIN_CLOCK_ERROR);
    let worst = replies().map(|reply| reply.error_estimate.error()).max()?;
    follows_utc.then(|| ClockError::within_error(worst))
}

fn delay_report(config: &StampConfig, exchange: &StampExchange, clocks: &Clocks) -> DelayReport {
    let mut report = DelayReport::new("stamp");
    let (samples, times) = exchange.samples();
    report.round_trip = round_trips(&times).map(DelayFigures::from);
    report_one_way(&mut report, &samples, clocks, |_| true);
    if !exchange.has_kernel_stamps() {
        report.warnings.push("no kernel time stamps: user-space time stamps are less accurate".into());
    }
    let counts = count_deliveries(config.count, config.late_after, exchange.replies());
    report.round_trip_packets = Some(counts.round_trip.into());
    report.up_packets = counts.directions.map(|(up, _)| up.into());
    report.down_packets = counts.directions.map(|(_, down)| down.into());
    let last = exchange.probes().iter().rev().find_map(|probe| Some((probe.reply?, probe.reply_ttl?)));
    if let Some((reply, ttl)) = last {
        // The number of hops is known only if the sender starts with a TTL of 255.
        let hops = |ttl: u8| (ttl > 128).then(|| 255 - ttl);
        (report.up_hops, report.down_hops) = (hops(reply.probe_ttl), hops(ttl));
    }
    report
}
