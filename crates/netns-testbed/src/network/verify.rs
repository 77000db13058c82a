use super::error::NetworkError;
use super::host::Host;
use super::spec::token_bucket;
use kumade_link::{LinkConfig, TokenBucket};
use kumade_net::SetupError;
use kumade_net::capture::Capture;
use kumade_units::Direction;
use kumade_units::{Rate, Span, Time};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

/// The measured properties of a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerifiedLink {
    /// From the spacing of a burst's packets; none where no rate is configured.
    pub rate: Option<Rate>,
    /// The minimum of a packet's delay less queueing and transmission.
    pub delay: Span,
    /// Ratio of the probe packets that did not arrive.
    pub loss: f64,
}

/// A check that the machine disturbs is repeated, after longer and longer pauses.
const MAX_ATTEMPTS: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const PACKET_BYTES: usize = 1500;
/// IPv4 and UDP.
const IPV4_UDP_HEADER_BYTES: usize = 28;

/// Checks that the path between two hosts is as `links` say, the bottleneck first, which lie in this direction and may
/// bring packets by `slack` too early or late.
pub(crate) fn verify_between(
    sender: &Host,
    receiver: &Host,
    links: &[&LinkConfig],
    direction: Direction,
    slack: Span,
) -> Result<VerifiedLink, NetworkError> {
    let attempt = || {
        let probes = send_probes(sender, receiver, links)?;
        compare_with_fifo(&probes, links, slack).map_err(|found| NetworkError::NotAsSet {
            direction,
            found,
            set: links.iter().map(|link| describe_link(link)).collect::<Vec<_>>().join("; behind it "),
        })
    };
    let mut outcome = attempt();
    for earlier in 1..MAX_ATTEMPTS {
        if outcome.is_ok() {
            break;
        }
        thread::sleep(RETRY_PAUSE * earlier);
        outcome = attempt();
    }
    outcome
}

/// A probe packet: when it left, and when it arrived if it did.
#[derive(Debug, Clone, Copy)]
struct ProbePacket {
    sent: Time,
    received: Option<Time>,
}

/// A burst back to back, which shows the rate; where loss is set, many packets more, far enough apart not to queue.
fn send_probes(sender: &Host, receiver: &Host, links: &[&LinkConfig]) -> Result<Vec<ProbePacket>, NetworkError> {
    let failed = |error| SetupError::new("send probe packets through the test network", error);
    let bind = |host: &Host| {
        let address = SocketAddr::from((host.v4, 0));
        host.namespace.run(|| UdpSocket::bind(address)).map(|socket| socket.map_err(failed))?
    };
    let (from, to) = (bind(sender)?, bind(receiver)?);
    let mut departures = sender.namespace.run(|| Capture::outgoing(Host::DEVICE))??;
    let mut arrivals = receiver.namespace.run(|| Capture::incoming(Host::DEVICE))??;
    from.connect(to.local_addr().map_err(failed)?).map_err(failed)?;
    let burst = burst_packets(links[0]);
    let packet = [0; PACKET_BYTES - IPV4_UDP_HEADER_BYTES];
    let gap = (transmission_time(links[0], PACKET_BYTES as u64) * 2).max(Span::from_micros(200));
    for number in 0..burst + if total_loss_ratio(links) > 0.0 { LOSS_PROBE_PACKETS } else { 0 } {
        if number >= burst {
            thread::sleep(gap.to_duration());
        }
        let size = if number < burst { packet.len() } else { 64 };
        let mut packet = packet;
        packet[..4].copy_from_slice(&number.to_be_bytes());
        from.send(&packet[..size]).map_err(failed)?;
    }
    let transmission = transmission_time(links[0], PACKET_BYTES as u64 * u64::from(burst));
    let flight = links.iter().fold(transmission, |sum, link| sum + link.delay + link.jitter.highest());
    thread::sleep((flight + Span::from_millis(20)).to_duration());
    let port = to.local_addr().map_err(failed)?.port();
    let sent = captured_probes(&mut departures, port);
    let received = captured_probes(&mut arrivals, port);
    Ok(sent.into_iter().map(|(number, sent)| ProbePacket { sent, received: received.get(&number).copied() }).collect())
}

const LOSS_PROBE_PACKETS: u32 = 500;

fn transmission_time(link: &LinkConfig, bytes: u64) -> Span {
    link.sustained_rate().map_or(Span::ZERO, |rate| rate.time_for(bytes))
}

/// The loss ratio of all links together.
fn total_loss_ratio(links: &[&LinkConfig]) -> f64 {
    1.0 - links.iter().map(|link| 1.0 - link.loss.mean_ratio()).product::<f64>()
}

/// As many as fit into the queue, and as take no longer than half a second.
fn burst_packets(link: &LinkConfig) -> u32 {
    let queue = 1 + link.queue_bytes / PACKET_BYTES as u64;
    let patience =
        link.sustained_rate().map_or(u64::MAX, |rate| rate.bytes_in(Span::from_millis(500)) / PACKET_BYTES as u64);
    queue.min(patience).clamp(2, 64) as u32
}

/// Stamps by the probe's number. Everything else that passes, such as other programs' packets, is left out.
fn captured_probes(capture: &mut Capture, port: u16) -> BTreeMap<u32, Time> {
    let mut stamps = BTreeMap::new();
    while let Some((stamp, number)) = capture.next(|stamp, packet| (stamp, probe_number(packet, port))) {
        if let Some(number) = number {
            stamps.insert(number, stamp);
        }
    }
    stamps
}

/// The number in an IPv4 UDP packet to `port`.
fn probe_number(packet: &[u8], port: u16) -> Option<u32> {
    let is_udp = packet.first()? >> 4 == 4 && *packet.get(9)? == 17;
    let is_probe = is_udp && packet.get(22..24)? == port.to_be_bytes();
    let number = packet.get(IPV4_UDP_HEADER_BYTES..IPV4_UDP_HEADER_BYTES + 4)?;
    is_probe.then(|| u32::from_be_bytes([number[0], number[1], number[2], number[3]]))
}

/// Compares with what FIFO links of these settings do to packets that leave when these left. An error says what is
/// wrong.
fn compare_with_fifo(probes: &[ProbePacket], links: &[&LinkConfig], slack: Span) -> Result<VerifiedLink, String> {
    let link = links[0];
    let tolerance =
        links.iter().fold(SCHEDULING_TOLERANCE + slack, |sum, link| sum + link.jitter.highest() - link.jitter.lowest());
    let lost = probes.iter().filter(|probe| probe.received.is_none()).count() as f64;
    let count = probes.len().max(1) as f64;
    let expected_loss = total_loss_ratio(links);
    let deviation = (expected_loss * (1.0 - expected_loss) / count).sqrt();
    let loss = lost / count;
    if (loss - expected_loss).abs() > 5.0 * deviation {
        return Err(format!("{lost} of {count} probe packets were lost"));
    }
    let first = &probes[..probes.len().min(burst_packets(link) as usize)];
    let sent = first.iter().map(|probe| probe.sent).collect();
    let expected = links.iter().fold(sent, |times, link| departure_times(link, times));
    // Of each packet that arrived: when it should have, and when it did.
    let burst: Vec<_> = expected.into_iter().zip(first).filter_map(|(at, probe)| Some((at, probe.received?))).collect();
    let set = links.iter().fold(Span::ZERO, |sum, link| sum + link.delay);
    let delay = burst.iter().map(|(expected, received)| *received - *expected).min();
    let delay = delay.ok_or("no packet of the burst arrived")? + set;
    if (delay - set).as_nanos().abs() > (tolerance + set / 100).as_nanos() {
        return Err(format!("the delay is {delay}"));
    }
    // What a bucket held at the beginning says nothing of the rate.
    let (first, last) = (burst[burst.len() / 4], burst[burst.len() - 1]);
    let (expected, spacing) = (last.0 - first.0, last.1 - first.1);
    let as_set = expected.as_secs_f64() / spacing.as_secs_f64().max(1e-9);
    let rate = link.sustained_rate().map(|rate| Rate::from_f64(rate.as_f64() * as_set));
    match rate {
        Some(rate) if (spacing - expected).as_nanos().abs() > (tolerance + expected / 50).as_nanos() => {
            Err(format!("the rate is {rate}"))
        }
        _ => Ok(VerifiedLink { rate, delay, loss }),
    }
}

/// When probe packets leave a link that they reach at these times. A bucket is reckoned by when it would be full: a
/// packet passes as soon as no more is missing than the bucket's size less the packet's.
fn departure_times(link: &LinkConfig, arrivals: Vec<Time>) -> Vec<Time> {
    let size = PACKET_BYTES as u64;
    let per_packet = link.rate.map_or(Span::ZERO, |rate| rate.time_for(size));
    let bucket = token_bucket(link).map(|TokenBucket { rate, burst_bytes }| {
        (rate.time_for(size), rate.time_for(burst_bytes.saturating_sub(size)))
    });
    let (mut free, mut full) = (Time::ZERO, Time::ZERO);
    let pass = |arrival: Time| {
        let mut start = free.max(arrival);
        if let Some((refilling, room)) = bucket {
            start = start.max(full + -room);
            full = full.max(start) + refilling;
        }
        free = start + per_packet;
        free + link.delay
    };
    arrivals.into_iter().map(pass).collect()
}

/// Scheduling delay that a busy machine may add to a packet's time.
const SCHEDULING_TOLERANCE: Span = Span::from_micros(100);

fn describe_link(link: &LinkConfig) -> String {
    let rate = link.sustained_rate().map_or_else(|| "no rate".into(), |rate| rate.to_string());
    format!("{rate}, delay {}, jitter {}, loss {} %", link.delay, link.jitter.amount, link.loss.mean_ratio() * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_link::{Link, Loss, Medium};

    fn config() -> LinkConfig {
        let (rate, delay) = (Some(Rate::from_mbit(100)), Span::from_millis(5));
        LinkConfig { rate, queue_bytes: 1_000_000, delay, ..LinkConfig::default() }
    }

    /// A burst sent at once over a link that spaces by `spacing` and delays by `delay`.
    fn burst(spacing_us: i64, delay_us: i64) -> Vec<ProbePacket> {
        let arrival = |number: i64| Time::ZERO + Span::from_micros(delay_us + spacing_us * (number + 1));
        (0..64).map(|number| ProbePacket { sent: Time::ZERO, received: Some(arrival(number)) }).collect()
    }

    #[test]
    fn a_link_as_set_passes() {
        let verified = compare_with_fifo(&burst(120, 5_000), &[&config()], Span::ZERO).unwrap();
        assert_eq!(verified.rate, Some(Rate::from_mbit(100)));
        assert_eq!((verified.delay, verified.loss), (Span::from_millis(5), 0.0));
    }

    #[test]
    fn each_wrong_setting_is_named_with_what_was_found() {
        let mut lossy = burst(120, 5_000);
        lossy[10].received = None;
        for (probes, part) in [
            (burst(133, 5_000), "the rate is 90"),
            (burst(120, 5_300), "the delay is 5.3 ms"),
            (lossy, "1 of 64 probe packets were lost"),
        ] {
            let found = compare_with_fifo(&probes, &[&config()], Span::ZERO).unwrap_err();
            assert!(found.contains(part), "{found}");
        }
        assert!(
            compare_with_fifo(
                &burst(120, 5_000),
                &[&LinkConfig { loss: Loss::Independent(0.3), ..config() }],
                Span::ZERO
            )
            .unwrap_err()
            .contains("0 of 64")
        );
    }

    /// The expectation agrees with the links themselves.
    #[test]
    fn a_bucket_and_a_later_hop_are_reckoned_with() {
        let medium = Some(Medium::TokenBucket(TokenBucket { rate: Rate::from_mbit(10), burst_bytes: 10_000 }));
        let shaped = LinkConfig { medium, rate: Some(Rate::from_mbit(1000)), ..config() };
        let later = LinkConfig { delay: Span::from_millis(1), rate: Some(Rate::from_mbit(400)), ..config() };
        let mut times: Vec<_> = (0..64).map(|i| Time::ZERO + Span::from_secs(1) + Span::from_micros(5 * i)).collect();
        let sent = times.clone();
        for config in [&shaped, &later] {
            let mut link = Link::new(config.clone().validate().unwrap());
            times.iter().for_each(|&at| link.offer((), PACKET_BYTES as u32, at).unwrap());
            link.advance(Time::ZERO + Span::from_secs(9));
            times = std::iter::from_fn(|| link.pop_due(Time::MAX)).map(|delivery| delivery.due).collect();
        }
        let probe = |(sent, received): (&Time, &Time)| ProbePacket { sent: *sent, received: Some(*received) };
        let probes: Vec<_> = sent.iter().zip(&times).map(probe).collect();
        let verified = compare_with_fifo(&probes, &[&shaped, &later], Span::ZERO).unwrap();
        assert_eq!(verified.delay, Span::from_millis(6));
        assert!((verified.rate.unwrap().as_f64() / 10e6 - 1.0).abs() < 1e-6, "{verified:?}");
        let found = compare_with_fifo(&probes, &[&shaped], Span::ZERO).unwrap_err();
        assert!(found.contains("the delay is 6"), "{found}");
    }
}
