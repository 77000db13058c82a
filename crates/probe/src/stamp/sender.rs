use super::config::StampConfig;
use super::count::count;
use super::flight::Flight;
use crate::cancel::Limit;
use crate::clocks;
use crate::error::Error;
use crate::resolve::resolve;
use estimate::delay::round_trips;
use measurement::report::{DelayFigures, DelayReport, SCHEMA};
use measurement::{Clocks, Report, report_one_way};
use net::datagram;
use std::io;
use train::ClockError;
use units::Span;
use wire::stamp::ErrorEstimate;

/// No clock is kept better: a reflector that claims less has filled the field in without knowing.
const MIN_CLOCK_ERROR: Span = Span::from_micros(1);

/// Measures the delay to any STAMP reflector and back.
///
/// # Errors
/// Where the host has no address, nothing answers there, or the measurement is cancelled.
pub fn measure_stamp(config: &StampConfig) -> Result<Report, Error> {
    let started = jiff::Timestamp::now();
    let limit = Limit::new(&config.cancel, None);
    let addresses = resolve(&config.host, config.port, config.family, &limit)?;
    let failed = |address| move |cause| Error::NoReflector { address, cause };
    let socket = datagram::connect(&addresses, &config.binding).map_err(failed(addresses[0]))?;
    let address = socket.peer_addr().map_err(failed(addresses[0]))?;
    let known = clocks::of_this_host(config.ntp.as_ref(), &limit)?.clocks;
    let mine = ErrorEstimate::new(known.near.is_some(), known.near_error().unwrap_or(Span::from_secs(1)));
    let mut flight = Flight::new(socket, config.count, mine);
    flight.fly(config, &limit).map_err(failed(address))?;
    limit.check()?;
    if flight.returns().is_empty() {
        return Err(failed(address)(io::Error::new(io::ErrorKind::TimedOut, "no answer")));
    }
    let known = Clocks { far: far_clock(&flight), ..known };
    Ok(Report {
        schema: SCHEMA.to_owned(),
        peer: address.to_string(),
        started: format!("{started:.3}"),
        up: None,
        down: None,
        delay: Some(report(config, &flight, &known)),
    })
}

/// The worst that the reflector says of its clock; none where it does not follow UTC.
fn far_clock(flight: &Flight) -> Option<ClockError> {
    let replies = || flight.fates().iter().filter_map(|fate| fate.reply);
    let follows_utc = replies().all(|reply| reply.clock.synchronised && reply.clock.error() >= MIN_CLOCK_ERROR);
    let worst = replies().map(|reply| reply.clock.error()).max()?;
    follows_utc.then(|| ClockError::within(worst))
}

fn report(config: &StampConfig, flight: &Flight, clocks: &Clocks) -> DelayReport {
    let mut report = DelayReport::new("stamp");
    let (crossings, times) = flight.crossings();
    report.round_trip = round_trips(&times).map(DelayFigures::from);
    report_one_way(&mut report, &crossings, clocks, |_| true);
    if !flight.has_kernel_stamps() {
        report.warnings.push("the kernel gave no time stamps: the program's own are less exact".into());
    }
    let counts = count(config.count, config.late_after, flight.returns());
    report.round_trip_packets = Some(counts.there_and_back.into());
    report.up_packets = counts.ways.map(|(up, _)| up.into());
    report.down_packets = counts.ways.map(|(_, down)| down.into());
    let last = flight.fates().iter().rev().find_map(|fate| Some((fate.reply?, fate.ttl?)));
    if let Some((reply, ttl)) = last {
        // Only those who begin with 255 tell how many hops were between.
        let hops = |ttl: u8| (ttl > 128).then(|| 255 - ttl);
        (report.up_hops, report.down_hops) = (hops(reply.probe_ttl), hops(ttl));
    }
    report
}
