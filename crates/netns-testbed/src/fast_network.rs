use crate::directed_link::{IDLE_TICK, Lateness, ORDERING_DELAY, PunctualityLog, RECORD_LENGTH};
use crate::fast_fabric::{CROSS_TRAFFIC_WARM_UP, FastFabric, OVERLOAD_RATIO, count_rate};
use crate::network::{Host, HostSpec, NetworkError};
use crate::traffic::UdpBursts;
use kumade_link::{
    CrossConfig, CrossKind, CrossTraffic, Delivery, Label, Link, LinkConfig, PeriodLengths, Recording, Valid,
};
use kumade_net::clock;
use kumade_net::cpu::CpuReservation;
use kumade_net::interface::{self, Family};
use kumade_net::low_latency::raise_priority;
use kumade_net::namespace::Namespace;
use kumade_net::tun::TunQueue;
use kumade_packet::Classification;
use kumade_packet::offload::LargePacket;
use kumade_packet_loop::{Buffer, BufferPool, FlowHasher, PacketThread, Shard, WakeReason};
use kumade_units::{Rate, Span, Time};
use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};
use std::slice;
use std::thread;

/// A bottleneck of gigabits per second that this process emulates, on the way up between hosts `a` and `b`, whose TUN devices leave
/// segmentation to it (`struct virtio_net_hdr`).
///
/// ```text
/// a ══ link up ══▶ b
///   ◀─────────────
/// ```
///
/// What a socket sends at once leaves its host as one packet of the kernel, with the kernel's stamp. The packet thread divides it into what the
/// link serves in 10 µs, and hands that to the receiver as one packet again once its last segment is due: as an interface that collects packets
/// for so long. Cross traffic is computed, in bursts of 64 kB, and ends behind the bottleneck. The way down has no rate.
#[derive(Debug)]
pub struct FastNetwork {
    hosts: [Host; 2],
    rate: Rate,
    mtu: u16,
    thread: PacketThread<FastShard>,
    /// The packet thread's own CPU: no program on a host is to keep it waiting.
    _cpu: CpuReservation,
}

/// Of cross traffic, what segmentation offload sends at once, in bytes.
const CROSS_BURST_BYTES: u64 = 65_536;
/// Cross traffic reaches the bottleneck by a line that is so many times as fast.
const CROSS_LINE_RATIO: f64 = 10.0;
/// What the bottleneck serves in this time is one packet of the kernel, as far as it was sent so.
const OFFLOAD_INTERVAL: Span = Span::from_micros(10);
/// Of each way. It leaves time to read packets.
const ONE_WAY_DELAY: Span = Span::from_micros(500);

impl FastNetwork {
    /// Builds it with devices of this MTU in bytes. As long as it lives, the calling thread and those that it starts keep off one CPU, which
    /// is left to the packets.
    ///
    /// # Errors
    /// The system refuses a namespace, a device or a thread.
    pub fn build(rate: Rate, queue_bytes: u64, mtu: u16) -> Result<Self, NetworkError> {
        let [a, b] = [HostSpec::with_number("a", 1), HostSpec::with_number("b", 2)];
        let ((a, near), (b, far)) = (build_host(&a, mtu)?, build_host(&b, mtu)?);
        let down = LinkConfig { delay: ONE_WAY_DELAY, queue_bytes: u64::from(u32::MAX), ..LinkConfig::default() };
        let up = LinkConfig { rate: Some(rate), queue_bytes, ..down.clone() };
        let links = [up.validate()?, down.validate()?];
        let reservation = CpuReservation::reserve_last();
        let cpu = reservation.cpu();
        let thread = PacketThread::start("fast-network", move || {
            cpu.pin();
            raise_priority();
            Ok(FastShard::new([near, far], links, rate.bytes_in(OFFLOAD_INTERVAL) as usize))
        })?;
        Ok(FastNetwork { hosts: [a, b], rate, mtu, thread, _cpu: reservation })
    }

    /// Has the packet thread do this.
    fn run_on_packet_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut FastShard) -> T + Send + 'static,
    ) -> Result<T, NetworkError> {
        self.thread.run_on_thread(work).map_err(|_| NetworkError::Stopped)
    }

    /// What has passed the bottleneck, in bytes, and when that was.
    fn forwarded_bytes(&self) -> Result<(u64, Time), NetworkError> {
        self.run_on_packet_thread(|shard| {
            (shard.links[0].ledger().packet_counters().forwarded.bytes, clock::monotonic())
        })
    }
}

impl FastFabric for FastNetwork {
    /// Since when there is this cross traffic.
    type CrossTraffic = Time;

    fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| NetworkError::NoHost(name.into()))
    }

    fn start_cross_traffic(&self, rate: Rate) -> Result<Time, NetworkError> {
        let start = clock::realtime();
        let source = CrossTraffic::new(burst_traffic(rate, self.rate, start))?;
        self.run_on_packet_thread(move |shard| shard.links[0].add_cross_traffic(source))?;
        thread::sleep(CROSS_TRAFFIC_WARM_UP.to_duration());
        Ok(start)
    }

    fn stop_cross_traffic(&self, from: Time) -> Result<Rate, NetworkError> {
        let to = clock::realtime();
        thread::sleep(IDLE_TICK.to_duration());
        let bytes = self.run_on_packet_thread(move |shard| {
            shard.advance(clock::realtime());
            let bytes = shard.links[0].ledger().cross_bytes_between(from, to);
            shard.links[0].stop_cross_traffic();
            bytes
        })?;
        bytes.map(|bytes| Rate::from_bytes_over(bytes, to - from)).ok_or(NetworkError::NoRecord(to - from))
    }

    fn measure_max_rate(&self) -> Result<Rate, NetworkError> {
        let rate = Rate::from_f64(self.rate.as_f64() * OVERLOAD_RATIO);
        let _bursts = UdpBursts::start_paced(&self.hosts[0], self.hosts[1].v4, self.mtu.into(), rate)?;
        count_rate(|| self.forwarded_bytes())
    }

    fn lateness(&self, from: Time, to: Time) -> Result<Lateness, NetworkError> {
        self.run_on_packet_thread(move |shard| shard.punctuality.lateness_between(from, to))
    }

    fn available_bandwidth(&self, cross: Rate, _: u32) -> Rate {
        Rate::from_f64(self.rate.as_f64() - cross.as_f64())
    }
}

/// At equal intervals, as a shaper paces what segmentation offload sends.
fn burst_traffic(rate: Rate, bottleneck: Rate, start: Time) -> CrossConfig {
    let line = Rate::from_f64(bottleneck.as_f64() * CROSS_LINE_RATIO);
    let (on, period) = (line.time_for(CROSS_BURST_BYTES), rate.time_for(CROSS_BURST_BYTES));
    let kind = CrossKind::OnOff { rate: line, size: 1500, on, off: period - on, periods: PeriodLengths::Fixed };
    CrossConfig { kind, start, phase: 0.0, seed: start.as_nanos().unsigned_abs() }
}

fn build_host(spec: &HostSpec, mtu: u16) -> Result<(Host, TunQueue), NetworkError> {
    let namespace = Namespace::new()?;
    let device = namespace.run(|| {
        let name = Host::DEVICE;
        let mut queues = TunQueue::open(name, mtu, 1)?;
        interface::add_address(name, ipnet::Ipv4Net::from(spec.v4).into())?;
        interface::add_default_route(name, Family::V4)?;
        queues.remove(0).with_handover_times(name)
    })??;
    Ok((Host { name: spec.name.clone(), v4: spec.v4, second_v4: None, v6: None, namespace }, device))
}

/// A packet, or one that stands for segments with so many bytes of payload each.
#[derive(Debug, Clone)]
struct BufferedPacket {
    bytes: Buffer,
    segment_bytes: Option<NonZeroU16>,
}

impl BufferedPacket {
    /// The bytes of all its segments, with the headers of each.
    fn size(&self) -> u32 {
        let len = self.bytes.len();
        let large = self.segment_bytes.and_then(|bytes| LargePacket::from_packet(&self.bytes, bytes).ok());
        let Some(LargePacket { payload_offset, segment_bytes, .. }) = large else { return len as u32 };
        let segments = (len - payload_offset).div_ceil(usize::from(segment_bytes)).max(1);
        (len + (segments - 1) * payload_offset) as u32
    }

    fn write_to(&mut self, device: &mut TunQueue) {
        let refused = |error: io::Error| tracing::debug!("a host refused a packet: {error}");
        match self.segment_bytes {
            None => device.write_batch(slice::from_ref(&self.bytes), |_| false, |_, error| refused(error)),
            Some(segment_bytes) => device.write_large(&mut self.bytes, segment_bytes).unwrap_or_else(refused),
        }
    }
}

/// Both hosts' devices, and the links between them.
#[derive(Debug)]
struct FastShard {
    devices: [TunQueue; 2],
    /// From the first host to the second, and back.
    links: [Link<BufferedPacket>; 2],
    /// Of what passes the bottleneck.
    punctuality: PunctualityLog,
    /// Of a large packet, in bytes; or a single one.
    max_offload_bytes: usize,
    flows: FlowHasher,
    pool: BufferPool,
    last_tick: Time,
}

/// Reads in a turn: what is sent at once, and is read as one packet, may be 64 of them.
const MAX_READS_PER_TURN: usize = 16;
/// Packets that are written in a turn, at most.
const MAX_WRITES_PER_TURN: usize = 64;

impl FastShard {
    fn new(devices: [TunQueue; 2], links: [Valid<LinkConfig>; 2], max_bytes: usize) -> Self {
        let (now, mut links) = (clock::realtime(), links.map(Link::new));
        for link in &mut links {
            link.advance(now);
            link.ledger_mut().record(Recording::Cross);
        }
        let (flows, pool) = (FlowHasher::new(), BufferPool::default());
        let punctuality = PunctualityLog::default();
        FastShard { devices, links, punctuality, max_offload_bytes: max_bytes, flows, pool, last_tick: now }
    }

    /// Takes packets that a host has sent.
    fn collect(&mut self, direction: usize) {
        let FastShard { devices, links, punctuality, max_offload_bytes: max_bytes, flows, pool, .. } = self;
        let link = &mut links[direction];
        for _ in 0..MAX_READS_PER_TURN {
            let mut packets = match devices[direction].read(0) {
                Ok(packets) => packets,
                // It cannot be segmented, and is lost.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                Err(_) => return,
            };
            let now = clock::realtime();
            let stamp = packets.handover_time().unwrap_or(now);
            if direction == 0 {
                punctuality.record_read(stamp, now);
            }
            loop {
                let mut bytes = pool.with_capacity(packets.max_packet_bytes().max(*max_bytes));
                let Some(segment_bytes) = packets.write_next_large(*max_bytes, &mut bytes) else { break };
                let classification = Classification::from_packet(&bytes);
                // The stack's multicasts to its neighbours concern nobody here.
                if classification.selector.is_some_and(|selector| !selector.destination.is_multicast()) {
                    let packet = BufferedPacket { bytes, segment_bytes };
                    let label = Label { size: packet.size(), ..flows.attributes_of_both_ends(&classification) };
                    // Its drops are in its ledger.
                    let _ = link.offer_labelled(packet, label, stamp);
                }
            }
        }
    }

    /// Brings both links to where all that was sent is known.
    fn advance(&mut self, now: Time) {
        for link in &mut self.links {
            link.advance(now - ORDERING_DELAY);
        }
    }

    /// Hands packets that are due to the other host.
    fn deliver(&mut self, direction: usize) {
        let FastShard { devices, links, punctuality, .. } = self;
        let device = &mut devices[1 - direction];
        for _ in 0..MAX_WRITES_PER_TURN {
            let now = clock::realtime();
            let Some(Delivery { mut packet, due, .. }) = links[direction].pop_due(now) else { return };
            if direction == 0 {
                punctuality.record_write(due, now - due);
            }
            packet.write_to(device);
        }
    }

    fn advance_links(&mut self, now: Time) {
        if now - self.last_tick >= IDLE_TICK {
            self.last_tick = now;
            self.links.iter_mut().for_each(|link| link.ledger_mut().forget_before(now - RECORD_LENGTH));
            self.punctuality.forget_before(now - RECORD_LENGTH);
        }
    }
}

impl Shard for FastShard {
    type Error = NetworkError;

    /// Experiments are judged by single packets.
    const MIN_SPIN: Span = Self::MAX_SPIN;

    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.devices.iter().map(TunQueue::as_fd).collect()
    }

    fn process(&mut self, _: WakeReason) -> Result<Time, NetworkError> {
        for direction in [0, 1] {
            self.collect(direction);
        }
        self.advance(clock::realtime());
        for direction in [0, 1] {
            self.deliver(direction);
        }
        let now = clock::realtime();
        self.advance_links(now);
        let next = self.links.iter().filter_map(Link::next_event).fold(self.last_tick + IDLE_TICK, Time::min);
        // In this order, an interruption between the two readings makes the next turn early and not late.
        let now = clock::monotonic();
        Ok(now + (next - clock::realtime()))
    }

    fn has_work(&self) -> bool {
        self.devices.iter().any(TunQueue::is_ready)
    }
}
