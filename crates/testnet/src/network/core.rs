use super::access::Access;
use super::directed_link::{DirectedLink, Pending};
use super::{Drops, NetworkError, NetworkSpec, Request};
use middlebox::{self, Action, Middlebox};
use net::capture::Capture;
use net::low_latency::{LowLatencyGuard, Watch};
use net::tun::Tun;
use net::{SetupError, clock};
use std::io::Read;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, TryRecvError};
use units::Direction;
use units::{Span, Time};

/// Packets are taken as ordered once they are this old: longer than a packet takes from its stamp to the ring.
pub(super) const HOLDBACK: Span = Span::from_micros(50);
/// Of every host's device.
pub(super) const MTU: u16 = 1500;
/// How far back truth and lateness can be asked for: longer than any method takes for a direction.
pub const MEMORY: Span = Span::from_secs(90);
/// An idle network computes its cross traffic this often, so that it never has much to catch up with.
const TICK: Span = Span::from_millis(20);
/// With less time than this to the next event, nothing is done that can wait.
const LEISURE: Span = Span::from_micros(100);
/// No device keeps more packets than this that are taken already: its queue is to have room.
const MAX_UNREAD_PACKETS: usize = 2000;
/// Written at most before looking for new packets again.
const BATCH: usize = 64;

/// Where a host is attached.
pub(super) struct Port {
    tun: Tun,
    capture: Capture,
    addresses: Vec<IpAddr>,
    access: Option<Access>,
    /// Packets that the capture has shown and that still lie in the device's own queue.
    unread: usize,
}

impl Port {
    pub(super) fn new(tun: Tun, capture: Capture, addresses: Vec<IpAddr>, access: Option<Access>) -> Self {
        Port { tun, capture, addresses, access, unread: 0 }
    }

    /// Writes a packet to the host.
    fn hand_over(tun: &Tun, packet: &[u8]) {
        if let Err(error) = tun.write(packet) {
            tracing::debug!("a host refused a packet: {error}");
        }
    }

    /// Empties the device's queue: the packets have already been taken from the capture.
    fn drain(&mut self) {
        while self.unread > 0 {
            self.unread = if self.tun.read(&mut [0; 1]).is_ok() { self.unread - 1 } else { 0 };
        }
    }
}

/// All that the packet thread owns.
pub(super) struct Core {
    left: Vec<Port>,
    right: Vec<Port>,
    up: DirectedLink,
    down: DirectedLink,
    pub(super) middlebox: Option<Middlebox>,
    inbox: Receiver<Request>,
    bell: UnixStream,
    watch: Watch,
    last_tick: Time,
    /// Buffers of delivered packets, to be used again.
    spare: Vec<Vec<u8>>,
}

impl Core {
    pub(super) fn new(
        mut ports: Vec<Port>,
        spec: &NetworkSpec,
        inbox: Receiver<Request>,
        bell: UnixStream,
    ) -> Result<Self, NetworkError> {
        let now = clock::realtime();
        let sources = ports.iter().map(|port| port.capture.as_fd()).chain([bell.as_fd()]);
        let watch = Watch::new(sources).map_err(|error| SetupError::new("watch the hosts' packets", error))?;
        let right = ports.split_off(spec.left.len());
        Ok(Core {
            left: ports,
            right,
            up: DirectedLink::new(spec.up.clone(), spec.up_queue.as_ref(), spec.up_later.clone(), now)?,
            down: DirectedLink::new(spec.down.clone(), None, spec.down_later.clone(), now)?,
            middlebox: None,
            inbox,
            bell,
            watch,
            last_tick: now,
            spare: Vec::new(),
        })
    }

    /// Moves packets until the network is dropped.
    pub(super) fn run(mut self) {
        let _low_latency = LowLatencyGuard::new();
        let mut is_woken = false;
        while self.serve_requests(is_woken) {
            self.collect();
            self.settle(clock::realtime() - HOLDBACK);
            self.deliver();
            self.tick();
            let next = self.next_event();
            let unread = self.left.iter().chain(&self.right).map(|port| port.unread).max();
            if next - clock::realtime() > LEISURE || unread > Some(MAX_UNREAD_PACKETS) {
                self.drain();
            }
            let (left, right) = (&self.left, &self.right);
            is_woken = self.watch.wait(next, || left.iter().chain(right).any(|port| port.capture.is_ready()));
        }
    }

    pub(super) fn lane(&mut self, direction: Direction) -> &mut DirectedLink {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    pub(super) fn drops(&mut self, direction: Direction) -> Drops {
        let senders = match direction {
            Direction::Up => &mut self.left,
            Direction::Down => &mut self.right,
        };
        let missed = senders.iter_mut().map(|port| port.capture.missed()).sum();
        let lane = self.lane(direction);
        let ledger = lane.link().ledger();
        Drops {
            packets: *ledger.packets(),
            cross: *ledger.cross(),
            refused: lane.refused,
            unroutable: lane.unroutable,
            missed,
        }
    }

    /// Does what other threads ask for; false once there is nobody left to ask.
    fn serve_requests(&mut self, is_woken: bool) -> bool {
        if is_woken {
            // Before the inbox is looked at, so that no ring is silenced unheard; and even if it rang for what was seen
            // before, so that it does not go on ringing.
            let _ = self.bell.read(&mut [0; 64]);
        }
        loop {
            match self.inbox.try_recv() {
                Ok(request) => {
                    self.collect();
                    self.settle(clock::realtime() - HOLDBACK);
                    request(self);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Takes what the hosts have sent.
    fn collect(&mut self) {
        for (ports, lane) in [(&mut self.left, &mut self.up), (&mut self.right, &mut self.down)] {
            for (index, port) in ports.iter_mut().enumerate() {
                while let Some(arrived) = port.capture.next(|stamp, bytes| {
                    let mut packet = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(usize::from(MTU)));
                    packet.clear();
                    packet.extend_from_slice(bytes);
                    Pending { stamp, packet, foreign: index > 0, judged: index > 0 }
                }) {
                    port.unread += 1;
                    // What the stack says to all its neighbours concerns nobody here.
                    if destination(&arrived.packet).is_none_or(|address| address.is_multicast()) {
                        continue;
                    }
                    match &mut port.access {
                        Some(access) => access.out.offer(arrived.packet, arrived.stamp),
                        None => lane.read(arrived, clock::realtime()),
                    }
                }
            }
        }
    }

    /// Brings both directions' links to `horizon`, up to which all that was sent is known.
    fn settle(&mut self, horizon: Time) {
        for (index, port) in self.left.iter_mut().enumerate() {
            let Some(access) = &mut port.access else { continue };
            let foreign = index > 0;
            access.out.advance(horizon, |packet, stamp| {
                self.up.push(Pending { stamp, packet, foreign, judged: foreign });
            });
        }
        while let Some(arrived) = self.up.pop_settled(horizon) {
            self.enter_up(arrived);
        }
        while let Some(arrived) = self.down.pop_settled(horizon) {
            self.down.offer(arrived);
        }
        self.up.advance(horizon);
        self.down.advance(horizon);
    }

    /// The middlebox stands before the measuring host, on the left: its packets pass it before the link upwards, and
    /// after the one downwards.
    fn enter_up(&mut self, mut arrived: Pending) {
        let action = match &mut self.middlebox {
            Some(middlebox) if !arrived.judged => {
                middlebox.pass(middlebox::Direction::Outbound, &mut arrived.packet, arrived.stamp)
            }
            _ => Action::Forward,
        };
        self.up.refused += u64::from(action != Action::Forward);
        match action {
            Action::Forward => self.up.offer(arrived),
            Action::Drop => {}
            Action::Reply(packet) => drop(hand_over(&self.left, &packet)),
            Action::Reset(pair) => {
                hand_over(&self.left, &pair.to_source);
                self.up.offer(Pending { packet: pair.to_destination, ..arrived });
            }
        }
    }

    /// Writes what is due to its receivers, the earliest first.
    fn deliver(&mut self) {
        let now = clock::realtime();
        for Port { tun, access, .. } in &mut self.left {
            if let Some(access) = access {
                access.back.advance(now, |packet, _| Port::hand_over(tun, &packet));
            }
        }
        for _ in 0..BATCH {
            let now = clock::realtime();
            let due = |lane: &DirectedLink| lane.next_due().unwrap_or(Time::MAX);
            let is_up = due(&self.up) <= due(&self.down);
            let lane = if is_up { &mut self.up } else { &mut self.down };
            let Some(mut delivery) = lane.pop_due(now) else { return };
            lane.written(delivery.due, now - delivery.due);
            if is_up {
                self.up.unroutable += u64::from(!hand_over(&self.right, &delivery.packet));
            } else {
                self.leave_down(&mut delivery.packet, delivery.due, now);
            }
            self.spare.push(delivery.packet);
        }
    }

    fn leave_down(&mut self, packet: &mut Vec<u8>, due: Time, now: Time) {
        let action = match &mut self.middlebox {
            Some(middlebox) if owner(&self.left[1..], packet).is_none() => {
                middlebox.pass(middlebox::Direction::Inbound, packet, now)
            }
            _ => Action::Forward,
        };
        self.down.refused += u64::from(action != Action::Forward);
        let answer = |packet| Pending { stamp: now, packet, foreign: false, judged: true };
        match action {
            Action::Forward => match self.left.iter_mut().find(|port| is_for(port, packet)) {
                Some(Port { access: Some(access), .. }) => access.back.offer(std::mem::take(packet), due),
                Some(port) => Port::hand_over(&port.tun, packet),
                None => self.down.unroutable += 1,
            },
            Action::Drop => {}
            Action::Reply(packet) => self.up.push(answer(packet)),
            Action::Reset(pair) => {
                self.up.push(answer(pair.to_source));
                hand_over(&self.left, &pair.to_destination);
            }
        }
    }

    fn next_event(&self) -> Time {
        let tick = self.last_tick + TICK;
        let lanes = [self.up.next_event(), self.down.next_event()].into_iter().flatten();
        let accesses = self.left.iter().filter_map(|port| port.access.as_ref());
        // What leaves an access link has time until it is settled, and what comes back is due.
        let next = |access: &Access| [access.out.next_event().map(|out| out + HOLDBACK), access.back.next_event()];
        lanes.chain(accesses.flat_map(next).flatten()).fold(tick, Time::min)
    }

    fn tick(&mut self) {
        let now = clock::realtime();
        if now - self.last_tick >= TICK {
            self.last_tick = now;
            self.up.forget_before(now - MEMORY);
            self.down.forget_before(now - MEMORY);
        }
    }

    fn drain(&mut self) {
        for port in self.left.iter_mut().chain(&mut self.right) {
            port.drain();
        }
    }
}

/// Writes a packet to the host that it is for; false where no host here has that address.
fn hand_over(ports: &[Port], packet: &[u8]) -> bool {
    let Some(port) = owner(ports, packet) else { return false };
    Port::hand_over(&port.tun, packet);
    true
}

fn owner<'a>(ports: &'a [Port], packet: &[u8]) -> Option<&'a Port> {
    ports.iter().find(|port| is_for(port, packet))
}

fn is_for(port: &Port, packet: &[u8]) -> bool {
    destination(packet).is_some_and(|address| port.addresses.contains(&address))
}

/// Where an IP packet wants to go.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => <[u8; 4]>::try_from(packet.get(16..20)?).ok().map(IpAddr::from),
        6 => <[u8; 16]>::try_from(packet.get(24..40)?).ok().map(IpAddr::from),
        _ => None,
    }
}
