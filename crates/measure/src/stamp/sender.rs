use super::count::count;
use super::flight::Flight;
use crate::client::{Error, Family, resolve};
use crate::clocks::{Known, NtpServer};
use crate::report::{ClockReport, DelayFigures, DelayReport, Report, SCHEMA};
use estimate::delay::{ClockModel, Crossing, Way, round_trips};
use net::{clock, datagram};
use std::io;
use train::ClockError;
use units::Span;
use wire::stamp::{ErrorEstimate, SIZE};

/// No clock is kept better: a reflector that claims less has filled the field in without knowing.
const LEAST_CLAIM: Span = Span::from_micros(1);

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct StampConfig {
    /// The reflector: a name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Which addresses of the host to use.
    pub family: Family,
    /// Probes to send.
    pub count: u32,
    /// From one to the next.
    pub interval: Span,
    /// A probe that takes longer is late.
    pub deadline: Span,
    /// Bytes of the UDP payload: 44, or more with padding.
    pub size: usize,
    /// A server that knows how wrong this host's clock is.
    pub ntp: Option<NtpServer>,
}

impl StampConfig {
    /// 200 probes in two seconds.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        StampConfig {
            host: host.into(),
            port,
            family: Family::Any,
            count: 200,
            interval: Span::from_millis(10),
            deadline: Span::from_secs(1),
            size: SIZE,
            ntp: None,
        }
    }
}

/// Measures the delay to any STAMP reflector and back.
///
/// # Errors
/// Where the host has no address, or nothing answers there.
pub fn measure_stamp(config: &StampConfig) -> Result<Report, Error> {
    let started = jiff::Timestamp::now();
    let addresses = resolve(&config.host, config.port, config.family)?;
    let failed = |address| move |cause| Error::NoReflector { address, cause };
    let socket = datagram::connect(&addresses).map_err(failed(addresses[0]))?;
    let address = socket.peer_addr().map_err(failed(addresses[0]))?;
    let mut known = Known::of_this_host(config.ntp.as_ref())?;
    let mine = ErrorEstimate::new(known.near.is_some(), known.near_error().unwrap_or(Span::from_secs(1)));
    let mut flight = Flight::new(socket, config.count, mine);
    flight.fly(config).map_err(failed(address))?;
    if flight.returns().is_empty() {
        return Err(failed(address)(io::Error::new(io::ErrorKind::TimedOut, "no answer")));
    }
    known.far = far_clock(&flight);
    Ok(Report {
        schema: SCHEMA.to_owned(),
        peer: address.to_string(),
        started: format!("{started:.3}"),
        up: None,
        down: None,
        delay: Some(report(config, &flight, known)),
    })
}

/// The worst that the reflector says of its clock; none where it does not follow UTC.
fn far_clock(flight: &Flight) -> Option<ClockError> {
    let replies = || flight.fates().iter().filter_map(|fate| fate.reply);
    let follows_utc = replies().all(|reply| reply.clock.synchronised && reply.clock.error() >= LEAST_CLAIM);
    let worst = replies().map(|reply| reply.clock.error()).max()?;
    follows_utc.then(|| ClockError::within(worst))
}

fn report(config: &StampConfig, flight: &Flight, known: Known) -> DelayReport {
    let mut report = DelayReport::new("stamp");
    let (crossings, times) = flight.crossings();
    report.round_trip = round_trips(&times).map(DelayFigures::from);
    fill_in(&mut report, &crossings, known, |_| true);
    if !flight.has_kernel_stamps() {
        report.warnings.push("the kernel gave no time stamps: the program's own are less exact".into());
    }
    let counts = count(config.count, config.deadline, flight.returns());
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

/// Both ways' delays on an idle path (of the crossings at those places), and what there is to say of the clocks.
pub(crate) fn fill_in(
    report: &mut DelayReport,
    crossings: &[Crossing],
    known: Known,
    is_idle: impl Fn(usize) -> bool,
) -> Option<ClockModel> {
    let now = clock::realtime();
    let started = crossings.iter().find(|c| c.way == Way::Forward).map_or(now, |crossing| crossing.sent);
    let references = known.references([started, now]);
    let model = match ClockModel::fit(crossings, &references) {
        Ok(model) => model,
        Err(error) => {
            report.reason = Some(error.to_string());
            return None;
        }
    };
    report.up = DelayFigures::of(&model, Way::Forward, &is_idle);
    report.down = DelayFigures::of(&model, Way::Backward, &is_idle);
    report.clock = Some(ClockReport::new(&model, started, known.near_error(), known.far_error()));
    report.warnings.extend(known.warnings);
    if model.is_contradicted() {
        report.warnings.push(
            "what the clocks' keepers say of them can't be true, given the packets: the bounds are those of the round trip"
                .into(),
        );
    } else if references.is_empty() {
        report.warnings.push(
            "one-way delays are known no better than the round trip allows: the clocks are not both known to be right"
                .into(),
        );
    }
    for step in model.steps() {
        let after = step.at - started;
        report.warnings.push(format!("a clock was set after {after}: the peer's is {} further ahead since", step.size));
    }
    Some(model)
}
