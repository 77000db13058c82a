//! Two sites that are joined by lines, each of them its own gateway.

use crate::outcome::Outcome;
use kumade_daemon::RuntimeDir;
use kumade_multipath::{PathPolicy, UnorderedFlows};
use kumade_net::SocketBinding;
use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::run_ip;
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey};
use kumade_overlay_io::{
    BondedConfig, BondedPlane, BondedRemote, ConnectionConfig, ConnectionRole, ConnectionTuning, DatagramConfig,
    OuterTransportConfig,
};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

pub const PORT: u16 = 7273;
/// What a path of 1500 bytes carries, also beside another one.
pub const TUNNEL_MTU: u16 = 1420;

/// Two hosts, joined by veth pairs without any shaping. On line N, counted from 1, they are 10.1.N.1 and 10.1.N.2.
pub struct Lines {
    pub hosts: [Namespace; 2],
    /// Of each host.
    counts: [usize; 2],
    /// Of each gateway.
    threads: usize,
}

impl Lines {
    pub fn new(count: usize) -> Outcome<Self> {
        let lines = Lines { hosts: [Namespace::new()?, Namespace::new()?], counts: [count; 2], threads: 1 };
        for line in 1..=count {
            let name = name(line);
            connect_by_veth((&lines.hosts[0], &name), (&lines.hosts[1], &name))?;
            for (host, number) in lines.hosts.iter().zip(1..) {
                let address = format!("10.1.{line}.{number}/24").parse()?;
                host.run(|| interface::add_address(&name, address))??;
            }
        }
        Ok(lines)
    }

    /// The same, with gateways of so many threads.
    pub fn with_threads(self, threads: usize) -> Self {
        Lines { threads, ..self }
    }

    /// Somebody on a line of their own to the second host. They are 10.1.N.1 there.
    pub fn add_attacker(&mut self) -> Outcome<Namespace> {
        self.counts[1] += 1;
        let (stranger, line) = (Namespace::new()?, self.counts[1]);
        connect_by_veth((&stranger, &name(line)), (&self.hosts[1], &name(line)))?;
        for (host, number) in [(&stranger, 1), (&self.hosts[1], 2)] {
            let address = format!("10.1.{line}.{number}/24").parse()?;
            host.run(|| interface::add_address(&name(line), address))??;
        }
        Ok(stranger)
    }

    pub fn keys() -> [PrivateKey; 2] {
        [1, 2].map(|seed| PrivateKey::from_bytes([seed; 32]))
    }

    /// Gateways at both ends, with a path on each of the first lines; on further lines they listen only. Hosts are 10.2.0.1
    /// and 10.2.0.2 then.
    pub fn bond(&self, paths: usize) -> Outcome<[BondedPlane; 2]> {
        let config = |own: usize| self.config(own, Lines::keys()[1 - own].public_key(), paths);
        self.start([config(0), config(1)])
    }

    /// A tunnel over so many TCP connections on the first line.
    pub fn tunnel(&self, connections: usize) -> Outcome<[BondedPlane; 2]> {
        let address = SocketAddr::from(([10, 1, 1, 2], PORT));
        let roles = [
            ConnectionRole::Connect { address, binding: SocketBinding::default(), connections },
            ConnectionRole::Listen { address, handover: None },
        ];
        let mut own = 0;
        let configs = roles.map(|role| {
            let config = self.config(own, Lines::keys()[1 - own].public_key(), 1);
            own += 1;
            let tuning = ConnectionTuning::default();
            let carriers = OuterTransportConfig::Tcp(ConnectionConfig {
                role,
                congestion_control: Some("cubic".into()),
                dscp: Default::default(),
                tuning,
            });
            BondedConfig { mtu: Some(1500), transports: carriers, policy: PathPolicy::LeastSent, ..config }
        });
        self.start(configs)
    }

    /// They have met when this returns.
    fn start(&self, configs: [BondedConfig; 2]) -> Outcome<[BondedPlane; 2]> {
        let [left, right] = configs;
        // Who is connected to comes first.
        let right = self.hosts[1].run(|| BondedPlane::start(right, Default::default()))??;
        let planes = [self.hosts[0].run(|| BondedPlane::start(left, Default::default()))??, right];
        let end = Instant::now() + Duration::from_secs(20);
        while !planes.iter().all(|plane| plane.status().is_ok_and(|status| status.remotes[0].is_connected)) {
            if Instant::now() > end {
                return Err("the gateways do not connect".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(planes)
    }

    fn config(&self, own: usize, far: PublicKey, paths: usize) -> BondedConfig {
        let binding = |line| SocketBinding { interface: Some(name(line)), ..SocketBinding::default() };
        let address = |line: usize| {
            let far = SocketAddr::from(([10, 1, line as u8, 2 - own as u8], PORT));
            (line <= paths).then_some(far)
        };
        BondedConfig {
            device: "tunnel".into(),
            mtu: Some(TUNNEL_MTU),
            addresses: vec![format!("10.2.0.{}/32", own + 1).parse().expect("an address")],
            identity: Lines::keys()[own].clone(),
            transports: OuterTransportConfig::Udp(DatagramConfig {
                port: PORT,
                threads: self.threads,
                paths: (1..=self.counts[own]).map(|line| (binding(line), None)).collect(),
                routes: Vec::new(),
                dscp: Default::default(),
            }),
            policy: PathPolicy::EarliestArrival,
            unordered_flows: UnorderedFlows::default(),
            remotes: vec![BondedRemote {
                key: far,
                psk: PresharedKey::default(),
                networks: vec![format!("10.2.0.{}/32", 2 - own).parse().expect("a network")],
                addresses: (1..=self.counts[own]).map(address).collect(),
                host: None,
            }],
            network_routes: Vec::new(),
            // Nothing is written down where there are no routes.
            directory: RuntimeDir::from_path(std::env::temp_dir().join("kumade-bench")),
        }
    }
}

pub fn name(line: usize) -> String {
    format!("line{line}")
}

/// Joins two hosts by a veth pair.
pub fn connect_by_veth(one: (&Namespace, &str), other: (&Namespace, &str)) -> Outcome<()> {
    run_ip(one.0, &["link", "add", one.1, "type", "veth", "peer", "name", other.1, "netns", &other.0.path()])?;
    for (inside, name) in [one, other] {
        inside.run(|| interface::set_up(name))??;
    }
    Ok(())
}
