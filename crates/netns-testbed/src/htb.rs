//! The kernel's hierarchical token bucket as the bottleneck, or another of its shapers: an outside reference for the lab's own
//! link.
//!
//! ```text
//! a, c ── router ══ HTB up ══▶ router ── b, d
//!                ◀═ HTB down ═
//! ```
//!
//! Every line is a veth pair without offloads. A shaper counts what the size table makes of each packet: 14 bytes less than
//! the Ethernet frame, hence IP bytes. What `c` and `d` send counts as cross traffic. There is no added delay.

use crate::kernel_link::{htb_burst_bytes, nftables_burst_bytes, tc_commands};
use crate::kernel_middlebox::{KernelMiddlebox, RouterInterfaces};
use crate::network::{Host, NetworkError, VerifiedLink, verify_between};
use crate::routed_hosts::{
    LineSettings, attach_host, configure_line, connect, enable_forwarding, line_end, run_command,
};
use crate::traffic::DepartureMeter;
use kumade_link::queue::QueueConfig;
use kumade_link::{LinkConfig, TokenBucket};
use kumade_middlebox::{FilterRule, MiddleboxConfig, PacketMatch, RefusalKind};
use kumade_net::namespace::Namespace;
use kumade_packet::protocol::UDP;
use kumade_units::Direction;
use kumade_units::{Rate, Time};

/// Four hosts around two routers, between which HTB shapes both directions. Dropping it ends everything in it.
#[derive(Debug)]
pub struct HtbNetwork {
    hosts: Vec<Host>,
    /// Left and right; dropping either would take its lines away.
    routers: [Namespace; 2],
    link: LinkConfig,
    /// Count what leaves `c`, and `d`.
    cross_meters: [DepartureMeter; 2],
    middlebox: Option<MiddleboxConfig>,
}

/// Either router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterSide {
    /// Before `a` and `c`.
    Left,
    /// Before `b` and `d`.
    Right,
}

impl RouterSide {
    /// In the order of the way up.
    pub const BOTH: [RouterSide; 2] = [RouterSide::Left, RouterSide::Right];

    /// Its interface on the way from `a` to `b`.
    pub fn up_interface(self) -> &'static str {
        if self == RouterSide::Left { ROUTER_INTERFACE } else { "b" }
    }
}

/// The interface of either router to the other one.
const ROUTER_INTERFACE: &str = "middle";
const MIDDLEBOX_INTERFACES: RouterInterfaces<'static> = RouterInterfaces { inside: "a", outside: ROUTER_INTERFACE };
const LINE_SETTINGS: LineSettings = LineSettings { mtu: 1500, offloads: false };

impl HtbNetwork {
    /// Builds it: `a` and `c` left, `b` and `d` right; up from left to right.
    ///
    /// # Errors
    /// Where `ip`, `tc` or the kernel's HTB are missing, or the system refuses a namespace or device.
    pub fn build(rate: Rate, queue_bytes: u64) -> Result<Self, NetworkError> {
        let link = LinkConfig { rate: Some(rate), queue_bytes, ..LinkConfig::default() };
        let shaping = tc_commands(ROUTER_INTERFACE, &link, None).map_err(NetworkError::Spec)?;
        let network = Self::build_routers(link)?;
        for router in RouterSide::BOTH {
            shaping.iter().try_for_each(|command| network.run_at(router, command))?;
        }
        Ok(network)
    }

    /// Builds it without a shaper: those on the way up are what [`run_at`](Self::run_at) is told. What is available behind them is for the
    /// caller to say, from their rates and [`cross_rate`](Self::cross_rate).
    ///
    /// # Errors
    /// Where `ip` is missing, or the system refuses a namespace or device.
    pub fn build_unshaped() -> Result<Self, NetworkError> {
        Self::build_routers(LinkConfig::default())
    }

    /// Builds it with what the kernel has of this link and its queue on the way up: rate, tail drop or RED, token bucket,
    /// policer; not its delay. The way down is as fast as the machine.
    ///
    /// # Errors
    /// As [`build`](Self::build); [`NetworkError::NoShaper`] where this machine lacks a program or a part of the kernel that the link
    /// takes, and [`NetworkError::Spec`] where no kernel has such a link.
    pub fn build_up(up: LinkConfig, queue: Option<&QueueConfig>) -> Result<Self, NetworkError> {
        let shaping = tc_commands(ROUTER_INTERFACE, &up, queue).map_err(NetworkError::Spec)?;
        let network = Self::build_routers(up)?;
        shaping.iter().try_for_each(|command| network.run_at(RouterSide::Left, command))?;
        Ok(network)
    }

    fn build_routers(link: LinkConfig) -> Result<Self, NetworkError> {
        let (left, right) = (Namespace::new()?, Namespace::new()?);
        for router in [&left, &right] {
            router.run(enable_forwarding)??;
        }
        connect((&left, ROUTER_INTERFACE), (&right, ROUTER_INTERFACE), LINE_SETTINGS)?;
        configure_line(&left, ROUTER_INTERFACE, line_end(0, 1), Some(line_end(0, 2)))?;
        configure_line(&right, ROUTER_INTERFACE, line_end(0, 2), Some(line_end(0, 1)))?;
        let mut hosts = Vec::new();
        for (number, name, router) in [(1, "a", &left), (2, "b", &right), (3, "c", &left), (4, "d", &right)] {
            hosts.push(attach_host(number, name, router, LINE_SETTINGS)?);
        }
        let cross = [DepartureMeter::start(&hosts[2])?, DepartureMeter::start(&hosts[3])?];
        let routers = [left, right];
        Ok(HtbNetwork { hosts, routers, link, cross_meters: cross, middlebox: None })
    }

    /// Runs a command of `tc` or `nft` at a router, whose interface on the way up is [`RouterSide::up_interface`]. Words are parted by spaces.
    ///
    /// # Errors
    /// [`NetworkError::NoShaper`] where this machine lacks the program, or that part of the kernel.
    pub fn run_at(&self, side: RouterSide, command: &str) -> Result<(), NetworkError> {
        let words: Vec<_> = command.split_whitespace().collect();
        run_command(&self.routers[side as usize], &words).map_err(NetworkError::NoShaper)
    }

    /// Why no kernel has this link with this queue, if none has.
    pub fn unavailable_reason(up: &LinkConfig, queue: Option<&QueueConfig>) -> Option<String> {
        tc_commands(ROUTER_INTERFACE, up, queue).err()
    }

    /// The bucket of a policer on the way up: nftables adds to its burst what passes in a second.
    pub fn nftables_burst_bytes(policer: TokenBucket) -> u64 {
        nftables_burst_bytes(policer)
    }

    /// The host of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| NetworkError::NoHost(name.into()))
    }

    /// Has the left router do what this middlebox does, as far as the kernel can: refuse UDP packets of `a`, treat what passes,
    /// translate addresses.
    ///
    /// # Errors
    /// Where the middlebox does something else; the error says what.
    pub fn set_middlebox(&mut self, config: Option<MiddleboxConfig>) -> Result<(), NetworkError> {
        let kernel = |config: &Option<MiddleboxConfig>| -> Result<_, NetworkError> {
            let config = config.clone().unwrap_or_default();
            let treatments = KernelMiddlebox::from_config(&config, MIDDLEBOX_INTERFACES).map_err(NetworkError::Spec)?;
            Ok((udp_refusal_kind(&config)?, treatments))
        };
        let ((old_refusal, old), (new_refusal, new)) = (kernel(&self.middlebox)?, kernel(&config)?);
        self.middlebox = config;
        self.set_udp_refusal(old_refusal, new_refusal)?;
        if old == new {
            return Ok(());
        }
        if old.nft_command(MIDDLEBOX_INTERFACES).is_some() {
            run_command(&self.routers[0], &["nft", &KernelMiddlebox::removal_command()])?;
        }
        if let Some(command) = new.nft_command(MIDDLEBOX_INTERFACES) {
            run_command(&self.routers[0], &["nft", &command]).map_err(NetworkError::NoShaper)?;
        }
        old.route_mtus.iter().try_for_each(|route| self.change_route_mtu("del", *route))?;
        new.route_mtus.iter().try_for_each(|route| self.change_route_mtu("add", *route))
    }

    /// What keeps the kernel from doing what this middlebox does; none where nothing does.
    pub fn unavailable_treatment(config: &MiddleboxConfig) -> Option<String> {
        KernelMiddlebox::from_config(config, MIDDLEBOX_INTERFACES).err()
    }

    fn set_udp_refusal(&self, old: Option<&str>, new: Option<&str>) -> Result<(), NetworkError> {
        for family in ["-4", "-6"] {
            let rule = |verb, kind| ["ip", family, "rule", verb, "priority", "10", "iif", "a", "ipproto", "udp", kind];
            if let Some(kind) = old {
                run_command(&self.routers[0], &rule("del", kind))?;
            }
            if let Some(kind) = new {
                run_command(&self.routers[0], &rule("add", kind))?;
            }
        }
        Ok(())
    }

    /// A route of the left router to the one host to which packets of that direction go.
    fn change_route_mtu(&self, verb: &str, (direction, is_ipv6, mtu): RouteMtu) -> Result<(), NetworkError> {
        let inside = direction == kumade_middlebox::Direction::Inbound;
        let (host, device) = if inside { (&self.hosts[0], "a") } else { (&self.hosts[1], ROUTER_INTERFACE) };
        let address = match host.v6 {
            Some(v6) if is_ipv6 => format!("{v6}/128"),
            _ => format!("{}/32", host.v4),
        };
        let gateway = line_end(0, 2);
        let gateway = if is_ipv6 { gateway.v6.map(|v6| v6.to_string()) } else { Some(gateway.v4.to_string()) };
        let gateway = gateway.filter(|_| !inside).map(|gateway| vec!["via".to_owned(), gateway]).unwrap_or_default();
        let family = if is_ipv6 { "-6" } else { "-4" };
        let mtu = mtu.to_string();
        let words = ["ip", family, "route", verb, &address];
        let gateway: Vec<_> = gateway.iter().map(String::as_str).collect();
        run_command(&self.routers[0], &[&words[..], &gateway, &["dev", device, "mtu", &mtu]].concat())?;
        Ok(())
    }

    /// Checks with real packets that the rate is as set; nothing else may be under way.
    ///
    /// # Errors
    /// [`NetworkError::NotAsSet`] with what was found; [`NetworkError::Spec`] where the network was built without a shaper.
    pub fn verify(&mut self, direction: Direction) -> Result<VerifiedLink, NetworkError> {
        let rate = self.link.rate.ok_or_else(no_rate)?;
        let middlebox = self.middlebox.clone();
        self.set_middlebox(None)?;
        let (a, b) = (self.host("a")?, self.host("b")?);
        let (sender, receiver) = if direction == Direction::Up { (a, b) } else { (b, a) };
        // A bucket hands a packet on when it may begin, not when it would have ended, and a burst at once.
        let slack = rate.time_for(htb_burst_bytes(rate) + 1500);
        let outcome = verify_between(sender, receiver, &[&self.link], direction, slack);
        self.set_middlebox(middlebox)?;
        outcome
    }

    /// The mean rate that `c`, at the left router, or `d` sent from `from` to `to` ([`kumade_net::clock::realtime`]).
    ///
    /// # Errors
    /// Where that is not on record.
    pub fn cross_rate(&self, side: RouterSide, from: Time, to: Time) -> Result<Rate, NetworkError> {
        Ok(Rate::from_bytes_over(self.cross_meters[side as usize].bytes_between(from, to)?, to - from))
    }

    /// The bandwidth that was available from `from` to `to` ([`kumade_net::clock::realtime`]): the sustained rate less the traffic that
    /// `c`, or `d`, sent.
    ///
    /// # Errors
    /// Where that is not on record, or the network was built without a shaper.
    pub fn available_bandwidth(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        let side = if direction == Direction::Up { RouterSide::Left } else { RouterSide::Right };
        let cross = self.cross_rate(side, from, to)?;
        let sustained = self.link.sustained_rate().ok_or_else(no_rate)?;
        Ok(Rate::from_f64(sustained.as_f64() - cross.as_f64()))
    }
}

fn no_rate() -> NetworkError {
    NetworkError::Spec(
        "look at a link without a rate: the network was built unshaped; add up the rates of its shapers".into(),
    )
}

/// The direction of a route, whether it is of IPv6, and its MTU.
type RouteMtu = (kumade_middlebox::Direction, bool, u16);

/// The kind of the router's rule that refuses UDP as `config` does.
fn udp_refusal_kind(config: &MiddleboxConfig) -> Result<Option<&'static str>, NetworkError> {
    let matching = PacketMatch { protocol: Some(UDP), destination_port: None };
    match config.rules.as_slice() {
        [] => Ok(None),
        [FilterRule::Refuse { matching: rule, refusal: RefusalKind::Reject }] if *rule == matching => {
            Ok(Some("prohibit"))
        }
        [FilterRule::Refuse { matching: rule, refusal: RefusalKind::Drop }] if *rule == matching => {
            Ok(Some("blackhole"))
        }
        _ => Err(NetworkError::Spec(
            "before HTB, the rules of a middlebox can refuse UDP and nothing else; use the lab's own bottleneck".into(),
        )),
    }
}
