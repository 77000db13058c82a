use super::config::StampConfig;
use super::deliveries::count_deliveries;
use super::exchange::StampExchange;
use super::extensions::report_extensions;
use crate::cancel::StopCondition;
use crate::clocks;
use crate::error::Error;
use crate::resolve::resolve;
use kumade_estimate::delay::round_trips;
use kumade_measurement::report::{DelayFigures, DelayReport, SCHEMA, Warning};
use kumade_measurement::{Clocks, Report, report_one_way};
use kumade_net::clock;
use kumade_net::platform::datagram;
use kumade_probe_train::ClockError;
use kumade_transport::deadline_after;
use kumade_units::Span;
use kumade_wire::stamp::ErrorEstimate;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::slice;

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
    let known = clocks::read_host_clocks(&config.ntp, &limit)?.clocks;
    let mine = ErrorEstimate::new(known.near.is_some(), known.near_error().unwrap_or(Span::from_secs(1)));
    let answering = first_answering(&addresses, config, mine, &limit);
    limit.check()?;
    let usable = answering.as_ref().map_or(&addresses[..], slice::from_ref);
    let socket = connect(usable, config).map_err(failed(usable[0]))?;
    let address = socket.peer_addr().map_err(failed(usable[0]))?;
    // The host is as busy then as during the exchange.
    let stamp_scatter = clocks::stamp_scatter();
    let mut exchange = StampExchange::new(socket, config, mine);
    exchange.run(config, &limit).map_err(failed(address))?;
    limit.check()?;
    if exchange.replies().is_empty() {
        return Err(failed(address)(io::Error::new(io::ErrorKind::TimedOut, "no answer")));
    }
    let known = Clocks { far: reflector_clock_error(&exchange), stamp_scatter, ..known };
    Ok(Report {
        schema: SCHEMA.to_owned(),
        peer: address.to_string(),
        started: format!("{started:.3}"),
        up: None,
        down: None,
        delay: Some(delay_report(config, &exchange, &known)),
        path: None,
        error: None,
    })
}

/// A socket whose test packets have the DSCP and ECN that are asked for.
fn connect(addresses: &[SocketAddr], config: &StampConfig) -> io::Result<UdpSocket> {
    let socket = datagram::connect(addresses, &config.binding)?;
    if let Some(ds_field) = config.ds_field {
        datagram::set_ds_field(&socket, ds_field)?;
    }
    Ok(socket)
}

/// Until the next address of a name is tried beside those before it: the Connection Attempt Delay of RFC 8305 §5.
const ATTEMPT_DELAY: Span = Span::from_millis(250);
/// Between two looks at who has answered.
const ANSWER_POLL_INTERVAL: Span = Span::from_millis(5);

/// Of several addresses of a reflector, the one that is first to answer a test packet, of a session of its own; none where there
/// is one address anyway, or nobody answers in time.
fn first_answering(
    addresses: &[SocketAddr],
    config: &StampConfig,
    clock_error: ErrorEstimate,
    limit: &StopCondition,
) -> Option<SocketAddr> {
    if addresses.len() < 2 {
        return None;
    }
    let probe = StampConfig { count: 1, ..config.clone() };
    let mut remaining = addresses.iter();
    let mut exchanges: Vec<(SocketAddr, StampExchange)> = Vec::new();
    let mut next_attempt = clock::monotonic();
    let mut end = deadline_after(config.late_after * 2);
    while (clock::monotonic() < end || !remaining.as_slice().is_empty()) && limit.check().is_ok() {
        if clock::monotonic() >= next_attempt
            && let Some(&address) = remaining.next()
        {
            // One to which no way leads is passed over at once.
            if let Ok(socket) = connect(&[address], config) {
                let mut exchange = StampExchange::new(socket, &probe, clock_error);
                if exchange.send_first(&probe).is_ok() {
                    next_attempt = deadline_after(ATTEMPT_DELAY);
                    end = deadline_after(config.late_after * 2);
                    exchanges.push((address, exchange));
                }
            }
        }
        exchanges.retain_mut(|(_, exchange)| exchange.wait_for_replies(clock::monotonic()).is_ok());
        if let Some((address, _)) = exchanges.iter().find(|(_, exchange)| !exchange.replies().is_empty()) {
            return Some(*address);
        }
        let pause = deadline_after(ANSWER_POLL_INTERVAL);
        limit.sleep_until(pause).ok()?;
    }
    None
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
    report = report.widened_by_scatter(clocks.stamp_scatter);
    // Else the note has the number.
    if !exchange.has_kernel_stamps() && clocks.stamp_scatter == Span::ZERO {
        report.warnings.push(Warning::NoKernelStampsHere);
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
    report.extensions = report_extensions(config, exchange.probes());
    report
}
