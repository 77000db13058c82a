use crate::{ExperimentNetwork, Host, Lateness, Network, NetworkError, NetworkSpec, ProxyFaults, TcpProxy};
use kumade_link::CrossConfig;
use kumade_middlebox::MiddleboxConfig;
use kumade_net::SetupError;
use kumade_units::{Direction, Rate, Time};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;

/// Two networks of a pair of hosts, and a TCP proxy that is a host of both: `b` of the near one, where clients connect to it as they
/// would to the server, and `a` of the far one. Nothing else passes.
///
/// ```text
/// a ── near bottleneck ──▶ proxy ── far bottleneck ──▶ b
/// ```
///
/// As a [`ExperimentNetwork`], its downstream hop is the far bottleneck.
#[derive(Debug)]
pub struct ProxiedNetwork {
    // Ended first, while its hosts are there.
    _proxy: TcpProxy,
    near: Network,
    far: Network,
}

const NEAR_HOST: &str = "a";
const FAR_HOST: &str = "b";

impl ProxiedNetwork {
    /// Builds both networks, which have to be [pairs](NetworkSpec::host_pair), with a proxy for this TCP port.
    ///
    /// # Errors
    /// A specification is impossible, or the system refuses a namespace, a device, a descriptor or a thread.
    pub fn build(near: NetworkSpec, far: NetworkSpec, port: u16) -> Result<Self, NetworkError> {
        // Each network keeps the thread that builds it off the CPU of its packets. From a thread of its own, the second one takes the same
        // CPU; from this one, it would find none.
        let far = thread::scope(|scope| scope.spawn(|| Network::build(far)).join());
        let far = far.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let near = Network::build(near)?;
        let refused = |error: io::Error| SetupError::new("start a TCP proxy", error);
        let address = |host: &Host| SocketAddr::from((host.v4, port));
        let (listening, server) = (near.host(FAR_HOST)?, address(far.host(FAR_HOST)?));
        let listener = listening.namespace.run(|| TcpListener::bind(address(listening)))?.map_err(refused)?;
        let start = || TcpProxy::start(listener, server, ProxyFaults::NO_FAULTS);
        let proxy = far.host(NEAR_HOST)?.namespace.run(start)?.map_err(refused)?;
        Ok(ProxiedNetwork { _proxy: proxy, near, far })
    }
}

impl ExperimentNetwork for ProxiedNetwork {
    fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        if name == NEAR_HOST { self.near.host(name) } else { self.far.host(name) }
    }

    fn set_cross_traffic(&mut self, direction: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError> {
        self.near.set_cross_traffic(direction, sources)
    }

    fn set_downstream_cross_traffic(
        &mut self,
        direction: Direction,
        sources: &[CrossConfig],
    ) -> Result<(), NetworkError> {
        self.far.set_cross_traffic(direction, sources)
    }

    fn set_middlebox(&mut self, config: Option<MiddleboxConfig>) -> Result<(), NetworkError> {
        self.near.set_middlebox(config)
    }

    fn verify_bottleneck(&mut self, direction: Direction) -> Result<(), NetworkError> {
        self.near.verify(direction)?;
        self.far.verify(direction).map(drop)
    }

    fn true_available_bandwidth(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        Ok(self.near.available_bandwidth(direction, from, to)?.min(self.far.available_bandwidth(direction, from, to)?))
    }

    fn lateness(&self, direction: Direction, from: Time, to: Time) -> Result<Lateness, NetworkError> {
        let [near, far] = [&self.near, &self.far].map(|network| network.lateness(direction, from, to));
        let (near, far) = (near?, far?);
        Ok(if far.max > near.max { far } else { near })
    }
}
