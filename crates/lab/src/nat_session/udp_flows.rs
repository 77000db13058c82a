//! UDP flows between real hosts, each packet with its flow, its number and when it was sent.

use super::flow_traffic::FlowTraffic;
use super::scenario::{FLOW_PORT, NatPoint, NatSessionExperiment, PAYLOAD_BYTES};
use anyhow::Context;
use kumade_net::clock;
use kumade_netns_testbed::Sites;
use kumade_packet::FlowKey;
use kumade_units::{Span, Time};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the receiver looks whether it should end.
const POLL_TIMEOUT: Duration = Duration::from_millis(50);
/// IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// From now until the first packet is sent.
const START_DELAY: Span = Span::from_millis(100);

/// The flows of a run; all end when this is dropped.
pub(super) struct UdpFlows {
    start_time: Time,
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<io::Result<Vec<Vec<Time>>>>>,
    receiver: Option<JoinHandle<io::Result<Vec<FlowArrivals>>>>,
    /// How long a packet is under way on the first path.
    first_path_delay: Span,
}

/// What arrived of a flow.
#[derive(Debug, Clone, Default)]
struct FlowArrivals {
    from_host_packets: u64,
    from_other_packets: u64,
    /// How long the first packet was under way.
    first_packet_delay: Option<Span>,
}

fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.into()).spawn(work).with_context(|| format!("start the thread {name}"))
}

impl UdpFlows {
    /// Begins to send soon.
    pub(super) fn start(
        sites: &Sites,
        experiment: &NatSessionExperiment,
        point: &NatPoint<'_>,
    ) -> anyhow::Result<Self> {
        let flows = point.case.flow_keys();
        let far = sites.b.namespace.run(|| UdpSocket::bind((sites.b.v4, FLOW_PORT)))?.context("open the receiver")?;
        far.set_read_timeout(Some(POLL_TIMEOUT))?;
        let bind = || flows.iter().map(|flow| UdpSocket::bind(flow.source)).collect::<io::Result<Vec<_>>>();
        let sockets = sites.a.namespace.run(bind)?.context("open the senders")?;
        let begin = clock::monotonic() + START_DELAY;
        let mut schedule: Vec<(Time, usize)> = (0..flows.len())
            .flat_map(|flow| experiment.packet_times(point.case, flow).map(move |after| (begin + after, flow)))
            .collect();
        schedule.sort();
        let stop = Arc::new(AtomicBool::new(false));
        let (ending, stopping) = (Arc::clone(&stop), Arc::clone(&stop));
        let to = flows[0].destination;
        let path = &experiment.paths[0];
        Ok(UdpFlows {
            start_time: begin,
            stop,
            receiver: Some(start("receiver", move || receive_packets(&far, &flows, &ending))?),
            sender: Some(start("sender", move || send_packets(&sockets, to, &schedule, &stopping))?),
            first_path_delay: path.emulated_delay() + path.rate.time_for((PAYLOAD_BYTES + HEADER_BYTES) as u64),
        })
    }

    /// When the first packet is sent, by the monotonic clock.
    pub(super) fn start_time(&self) -> Time {
        self.start_time
    }

    /// What has become of each flow.
    pub(super) fn stop(mut self) -> anyhow::Result<Vec<FlowTraffic>> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = join_thread(self.sender.take())?.context("send packets")?;
        let arrived = join_thread(self.receiver.take())?.context("receive packets")?;
        let flow = |(sent, arrived): (Vec<Time>, FlowArrivals)| FlowTraffic {
            sent_times: sent,
            received_packets: arrived.from_host_packets,
            altered_packets: arrived.from_other_packets,
            first_packet_wait: arrived.first_packet_delay.map(|delay| (delay - self.first_path_delay).max(Span::ZERO)),
        };
        Ok(sent.into_iter().zip(arrived).map(flow).collect())
    }
}

impl Drop for UdpFlows {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // What they came to is not asked for any more.
        let _ = join_thread(self.sender.take());
        let _ = join_thread(self.receiver.take());
    }
}

fn join_thread<T>(thread: Option<JoinHandle<T>>) -> anyhow::Result<T> {
    let thread = thread.context("the thread has been waited for")?;
    thread.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))
}

/// Returns when each packet of each flow was sent.
fn send_packets(
    sockets: &[UdpSocket],
    to: std::net::SocketAddr,
    schedule: &[(Time, usize)],
    stop: &AtomicBool,
) -> io::Result<Vec<Vec<Time>>> {
    let mut sent = vec![Vec::new(); sockets.len()];
    for (at, flow) in schedule {
        loop {
            let left = *at - clock::monotonic();
            if left <= Span::ZERO {
                break;
            }
            thread::sleep(left.to_duration().min(POLL_TIMEOUT));
            if stop.load(Ordering::Relaxed) {
                return Ok(sent);
            }
        }
        let now = clock::monotonic();
        let number = sent[*flow].len() as u64;
        let mut payload = [0; PAYLOAD_BYTES];
        for (place, value) in [*flow as u64, number, now.as_nanos() as u64].iter().enumerate() {
            payload[place * 8..][..8].copy_from_slice(&value.to_be_bytes());
        }
        sockets[*flow].send_to(&payload, to)?;
        sent[*flow].push(now);
    }
    Ok(sent)
}

fn receive_packets(socket: &UdpSocket, flows: &[FlowKey], stop: &AtomicBool) -> io::Result<Vec<FlowArrivals>> {
    let mut arrived = vec![FlowArrivals::default(); flows.len()];
    let mut payload = [0; PAYLOAD_BYTES];
    while !stop.load(Ordering::Relaxed) {
        let from = match socket.recv_from(&mut payload) {
            Ok((_, from)) => from,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
            Err(error) => return Err(error),
        };
        let now = clock::monotonic();
        let value = |place: usize| {
            let bytes = payload[place * 8..][..8].try_into().unwrap_or_default();
            u64::from_be_bytes(bytes)
        };
        let [flow, number, sent] = [0, 1, 2].map(value);
        let Some((flow, arrived)) = flows.get(flow as usize).zip(arrived.get_mut(flow as usize)) else { continue };
        match from == flow.source {
            true => arrived.from_host_packets += 1,
            false => arrived.from_other_packets += 1,
        }
        if number == 0 {
            arrived.first_packet_delay.get_or_insert(now - Time::from_nanos(sent as i64));
        }
    }
    Ok(arrived)
}
