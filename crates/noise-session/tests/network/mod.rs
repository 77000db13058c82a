//! Two hosts under a virtual clock, and between them paths that lose, delay, duplicate and alter datagrams.

use kumade_noise_session::{
    DatagramKind, Endpoint, EndpointEvent, HEADER_BYTES, HandshakeNotice, HandshakePolicy, PeerId, PresharedKey,
    PrivateKey, RefusedDatagram, Route, SealError, SessionTable, TAG_BYTES,
};
use kumade_units::{Span, Time};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

/// 2026-01-01, on every host's clock unless it is set otherwise.
pub const WALL: Time = Time::from_nanos(1_767_225_600_000_000_000);

/// What a path does to datagrams.
#[derive(Debug, Clone, Copy)]
pub struct PathConfig {
    pub delay: Span,
    /// Added to the delay, uniformly from zero.
    pub jitter: Span,
    pub loss: f64,
    pub duplication: f64,
    pub corruption: f64,
}

impl PathConfig {
    pub const fn delay_of(delay: Span) -> Self {
        PathConfig { delay, jitter: Span::ZERO, loss: 0.0, duplication: 0.0, corruption: 0.0 }
    }
}

pub struct Host {
    pub endpoint: Endpoint,
    pub table: SessionTable,
    pub peer: PeerId,
    /// What its clock shows more than [`WALL`] and the time.
    pub clock_offset: Span,
    /// The numbers that it sent, and when.
    pub sent: BTreeMap<u32, Time>,
    /// The numbers that came from the other host.
    pub received: BTreeSet<u32>,
    pub refused: Vec<RefusedDatagram>,
    pub established: Vec<Time>,
    /// What the peer's handshakes told of its life, one for each session.
    pub instances: Vec<u64>,
    pub is_unreachable: bool,
    /// What its administrator was told.
    pub notices: Vec<HandshakeNotice>,
}

pub struct Network {
    pub now: Time,
    pub hosts: [Host; 2],
    pub paths: Vec<PathConfig>,
    /// Every datagram that was sent: by whom, and what.
    pub log: Vec<(usize, Vec<u8>)>,
    keys: [PrivateKey; 2],
    /// By arrival: the receiver, and where from.
    in_flight: BTreeMap<(Time, u64), (usize, Route, Vec<u8>)>,
    random: StdRng,
    serial: u32,
}

impl Network {
    /// Two hosts that know each other's keys and routes.
    pub fn new(seed: u64, paths: Vec<PathConfig>) -> Self {
        Self::with_psks(seed, paths, [PresharedKey::default(), PresharedKey::default()])
    }

    pub fn with_psks(seed: u64, paths: Vec<PathConfig>, psks: [PresharedKey; 2]) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let keys = [PrivateKey::generate(&mut random), PrivateKey::generate(&mut random)];
        let hosts = [0, 1].map(|number| host(number, &keys, psks[number].clone(), &mut random));
        let mut network = Network {
            now: Time::ZERO,
            hosts,
            paths,
            log: Vec::new(),
            keys,
            in_flight: BTreeMap::new(),
            random,
            serial: 0,
        };
        for number in 0..2 {
            network.give_routes(number);
        }
        network
    }

    pub fn private_key(&self, number: usize) -> &PrivateKey {
        &self.keys[number]
    }

    pub fn give_routes(&mut self, number: usize) {
        let routes = (0..self.paths.len() as u8).map(|path| Route { path, address: address(1 - number, path) });
        let (peer, now) = (self.hosts[number].peer, self.now);
        self.hosts[number].endpoint.set_routes(peer, routes.collect(), now);
    }

    /// A host loses all it knew but its keys, and gets a clock that differs by `clock_offset`.
    pub fn restart(&mut self, number: usize, clock_offset: Span) {
        let mut fresh = host(number, &self.keys, PresharedKey::default(), &mut self.random);
        fresh.clock_offset = clock_offset;
        fresh.sent = std::mem::take(&mut self.hosts[number].sent);
        fresh.received = std::mem::take(&mut self.hosts[number].received);
        self.hosts[number] = fresh;
    }

    /// Sends a packet with a number that no other has, if there is a session; wishes for one otherwise.
    pub fn send_data(&mut self, from: usize, path: u8) -> Result<u32, SealError> {
        let (now, serial) = (self.now, self.serial);
        let host = &mut self.hosts[from];
        let mut datagram = [&[0; HEADER_BYTES], &numbered_packet(serial)[..], &[0; TAG_BYTES]].concat();
        if let Err(error) = host.table.seal(host.peer, path, &mut datagram, now) {
            host.endpoint.connect(host.peer, now);
            return Err(error);
        }
        host.endpoint.record_data_sent(host.peer, now);
        host.sent.insert(serial, now);
        self.serial += 1;
        self.carry(from, path, datagram);
        Ok(serial)
    }

    /// Lets time pass, with everything that is due in it.
    pub fn run_until(&mut self, end: Time) {
        loop {
            for number in 0..2 {
                self.drain_events(number);
            }
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let timers = self.hosts.iter().filter_map(|host| host.endpoint.next_deadline()).min();
            let next = [arrival, timers].into_iter().flatten().min().unwrap_or(Time::MAX);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if arrival == Some(next) {
                self.arrive();
            } else {
                self.advance();
            }
        }
    }

    /// For `span`, both hosts listed send a packet every `interval`, on one path after the other.
    pub fn exchange(&mut self, senders: &[usize], span: Span, interval: Span) {
        let end = self.now + span;
        let mut turn = 0;
        while self.now < end {
            for &from in senders {
                let path = (turn % self.paths.len()) as u8;
                let _ = self.send_data(from, path);
            }
            turn += 1;
            self.run_until(self.now + interval);
        }
    }

    /// Numbers that `from` sent before `until` and that have not arrived.
    pub fn missing(&self, from: usize, since: Time, until: Time) -> Vec<u32> {
        let sent = self.hosts[from].sent.iter().filter(|(_, at)| (since..until).contains(*at));
        sent.map(|(number, _)| *number).filter(|number| !self.hosts[1 - from].received.contains(number)).collect()
    }

    /// Puts a datagram on a path as if `from` had sent it.
    pub fn carry(&mut self, from: usize, path: u8, datagram: Vec<u8>) {
        self.log.push((from, datagram.clone()));
        let config = self.paths[usize::from(path)];
        let copies = if self.random.random_bool(config.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            if self.random.random_bool(config.loss) {
                continue;
            }
            let mut copy = datagram.clone();
            if self.random.random_bool(config.corruption) {
                corrupt(&mut copy, &mut self.random);
            }
            let jitter = Span::from_nanos(self.random.random_range(0..=config.jitter.as_nanos()));
            self.deliver_at(self.now + config.delay + jitter, 1 - from, path, copy);
        }
    }

    pub fn deliver_at(&mut self, at: Time, to: usize, path: u8, datagram: Vec<u8>) {
        let order = self.random.random();
        let route = Route { path, address: address(1 - to, path) };
        self.in_flight.insert((at, order), (to, route, datagram));
    }

    fn advance(&mut self) {
        for host in &mut self.hosts {
            let wall = Time::from_nanos((WALL + host.clock_offset).as_nanos() + self.now.as_nanos());
            host.endpoint.advance(self.now, wall);
        }
    }

    fn arrive(&mut self) {
        let Some((_, (to, route, mut datagram))) = self.in_flight.pop_first() else { return };
        let now = self.now;
        let host = &mut self.hosts[to];
        if DatagramKind::from_datagram(&datagram) != Some(DatagramKind::Data) {
            if let Err(refused) = host.endpoint.receive(&datagram, route, now) {
                host.refused.push(refused);
            }
            return;
        }
        let Ok((peer, opened)) = host.table.open(&mut datagram, now) else { return };
        if opened.plaintext.is_empty() {
            host.endpoint.record_keepalive_received(peer, now);
            return;
        }
        host.endpoint.record_data_received(peer, now);
        let number = number(&datagram[opened.plaintext]);
        assert!(host.received.insert(number), "{number} is delivered twice");
        assert!(self.hosts[1 - to].sent.contains_key(&number), "{number} was never sent");
    }

    fn drain_events(&mut self, number: usize) {
        while let Some(event) = self.hosts[number].endpoint.next_event() {
            let host = &mut self.hosts[number];
            match event {
                EndpointEvent::Transmit { to, datagram } => self.carry(number, to.path, datagram),
                EndpointEvent::Established { peer, session, instance, .. } => {
                    host.table.install(peer, session, self.now);
                    host.established.push(self.now);
                    host.instances.push(instance);
                }
                EndpointEvent::Unreachable { .. } => host.is_unreachable = true,
                EndpointEvent::Notice(notice) => host.notices.push(notice),
            }
        }
    }
}

/// Where a host is reached on a path.
pub fn address(host: usize, path: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, path, host as u8 + 1), 7272))
}

fn host(number: usize, keys: &[PrivateKey; 2], psk: PresharedKey, random: &mut StdRng) -> Host {
    let own = StdRng::seed_from_u64(random.random());
    let mut endpoint = Endpoint::new(keys[number].clone(), HandshakePolicy::default(), Box::new(own));
    let peer = endpoint.add_peer(keys[1 - number].public_key(), psk).expect("another host");
    Host {
        endpoint,
        table: SessionTable::new(),
        peer,
        clock_offset: Span::ZERO,
        sent: BTreeMap::new(),
        received: BTreeSet::new(),
        refused: Vec::new(),
        established: Vec::new(),
        instances: Vec::new(),
        is_unreachable: false,
        notices: Vec::new(),
    }
}

/// A packet whose length depends on its number, and all of whose bytes tell it.
fn numbered_packet(number: u32) -> Vec<u8> {
    number.to_le_bytes().iter().copied().cycle().take(4 + (number as usize * 7) % 200).collect()
}

fn number(bytes: &[u8]) -> u32 {
    let number = u32::from_le_bytes(*bytes.first_chunk().expect("a packet of ours"));
    assert_eq!(bytes, numbered_packet(number), "the packet has been altered");
    number
}

/// Flips a bit, or changes the length.
fn corrupt(datagram: &mut Vec<u8>, random: &mut StdRng) {
    match random.random_range(0..4) {
        0 => datagram.truncate(random.random_range(0..datagram.len())),
        1 => datagram.push(random.random()),
        _ => {
            let at = random.random_range(0..datagram.len());
            datagram[at] ^= 1 << random.random_range(0..8);
        }
    }
}
