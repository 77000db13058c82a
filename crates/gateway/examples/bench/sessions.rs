//! 10 000 NAT sessions open at once between two gateways of the direct plane: how long that takes (a gateway asks for 4000 per
//! second at most), and what they cost then.

use crate::outcome::{Outcome, mean};
use crate::process::{cpu_share, resident_bytes, slab_bytes};
use kumade_daemon::RuntimeDir;
use kumade_gateway::GatewayConfig;
use kumade_gateway::direct::{DirectPlane, SessionPlane};
use kumade_gateway::status::{GatewayStatus, new_recorder};
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::Sites;
use kumade_noise_session::{PresharedKey, PrivateKey, PublicKey};
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const FLOW_COUNT: u16 = 10_000;
const FIRST_PORT: u16 = 20_000;
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the CPU time of gateways is measured.
const IDLE_SECONDS: u32 = 10;
const STATUS_REQUESTS: usize = 100;

/// A gateway, with what is seen of it from outside.
struct Gateway<'a> {
    namespace: &'a Namespace,
    // In the order in which they end.
    sessions: Option<SessionPlane>,
    plane: Option<DirectPlane>,
    config: GatewayConfig,
}

pub fn measure() -> Outcome<()> {
    let sites = Sites::with_veth_paths(2)?;
    let directory = std::env::temp_dir().join(format!("kumade-bench-{}", std::process::id()));
    let result = measure_with_gateways(&sites, &directory);
    let _ = fs::remove_dir_all(directory);
    result
}

fn measure_with_gateways(sites: &Sites, directory: &Path) -> Outcome<()> {
    let gateways = [Gateway::start(&sites.left, 1, directory)?, Gateway::start(&sites.right, 2, directory)?];
    let met = || gateways.iter().all(|gateway| gateway.status().is_ok_and(|status| is_reachable(&status)));
    wait_until("the gateways to meet", met)?;
    // As the program does it.
    let renew = || gateways.iter().try_for_each(|gateway| gateway.status().map(drop));
    let idle = cpu_share(IDLE_SECONDS, renew)?;
    let (memory, slab) = (resident_bytes()?, slab_bytes()?);
    let (opening, slowest) = open_all_sessions(sites, &gateways[0])?;
    println!(
        "{FLOW_COUNT} NAT sessions open after {:.1} s; the slowest status meanwhile took {:.1} ms",
        opening.as_secs_f64(),
        slowest.as_secs_f64() * 1e3
    );
    let (open, slab) = (resident_bytes()?, slab_bytes()?.saturating_sub(slab));
    let per_session = (open as f64 - memory as f64) / 2.0 / f64::from(FLOW_COUNT);
    println!(
        "memory of both gateways: {:.1} MB before, {:.1} MB with all sessions open ({per_session:.0} bytes a session and gateway); \
         the kernel's own grew by {:.1} MB meanwhile",
        memory as f64 / 1e6,
        open as f64 / 1e6,
        slab as f64 / 1e6
    );
    println!(
        "CPU of both gateways without traffic, their status renewed each second: {:.2} % of a core before, {:.2} % with all sessions \
         open",
        idle * 100.0,
        cpu_share(IDLE_SECONDS, renew)? * 100.0
    );
    for (gateway, role) in gateways.iter().zip(["sending", "receiving"]) {
        println!("status of the {role} gateway: {}", measure_status_requests(gateway)?);
    }
    let start = Instant::now();
    drop(gateways);
    println!("both gateways have ended after {:.2} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Sends a packet of each flow again and again until all are divided. Returns how long that took, and the longest time
/// until the status was there.
fn open_all_sessions(sites: &Sites, sending: &Gateway<'_>) -> Outcome<(Duration, Duration)> {
    let socket = sites.a.namespace.run(|| UdpSocket::bind((sites.a.v4, 5000)))??;
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    loop {
        for port in FIRST_PORT..FIRST_PORT + FLOW_COUNT {
            // What a queue does not take is sent again.
            let _ = socket.send_to(b"data", (sites.b.v4, port));
        }
        let asked = Instant::now();
        let status = sending.status()?;
        slowest = slowest.max(asked.elapsed());
        let active = status.remotes[0].sessions.as_ref().map_or(0, |sessions| sessions.divided.active);
        if active == u64::from(FLOW_COUNT) {
            return Ok((start.elapsed(), slowest));
        }
        if start.elapsed() > WAIT_TIMEOUT {
            return Err(format!("only {active} sessions are open after {WAIT_TIMEOUT:?}").into());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// How long it takes to ask, and how large the document is.
fn measure_status_requests(gateway: &Gateway<'_>) -> Outcome<String> {
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..STATUS_REQUESTS {
        let start = Instant::now();
        bytes = serde_json::to_string(&gateway.status()?)?.len();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let longest = times.iter().copied().fold(0.0, f64::max);
    Ok(format!("{:.1} ms on average, {longest:.1} ms at most; {} kB of JSON", mean(&times), bytes / 1000))
}

impl<'a> Gateway<'a> {
    fn start(namespace: &'a Namespace, number: u8, directory: &Path) -> Outcome<Self> {
        let interfaces = [Sites::LAN.to_owned(), Sites::path_interface(0), Sites::path_interface(1)];
        let config = GatewayConfig::from_toml(&configuration(number), "the benchmark's configuration", &interfaces)?;
        let settings = config.sessions.as_ref().ok_or("no sessions")?;
        let plane = namespace.run(|| DirectPlane::start(&config, RuntimeDir::from_path(directory)))??;
        let psks = vec![PresharedKey::default()];
        let sessions = namespace.run(|| SessionPlane::start(&plane, settings, key(number), psks))??;
        Ok(Gateway { namespace, sessions: Some(sessions), plane: Some(plane), config })
    }

    /// As `kumade gateway status` has it.
    fn status(&self) -> Outcome<GatewayStatus> {
        let mut recorder = new_recorder(&self.config);
        let sessions = self.sessions.as_ref().ok_or("it has ended")?.status()?;
        recorder.renew(|status, _| {
            sessions.fill_status(status);
            Ok::<_, std::convert::Infallible>(())
        })?;
        Ok(recorder.latest().get())
    }
}

impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        drop(self.sessions.take());
        let plane = self.plane.take();
        // It takes its rules away in its own namespace.
        let _ = self.namespace.run(|| drop(plane));
    }
}

fn is_reachable(status: &GatewayStatus) -> bool {
    status.remotes.iter().all(|remote| remote.sessions.as_ref().is_some_and(|sessions| sessions.reachable))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) -> Outcome<()> {
    let end = Instant::now() + WAIT_TIMEOUT;
    while !condition() {
        if Instant::now() > end {
            return Err(format!("waited {WAIT_TIMEOUT:?} for {what}").into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn key(number: u8) -> PrivateKey {
    PrivateKey::from_bytes([number; 32])
}

/// Hosts of the first site share an address on the second path. No session ends while it is measured.
fn configuration(own: u8) -> String {
    let far = 3 - own;
    let public: PublicKey = key(far).public_key();
    let paths = [0, 1].map(|place| {
        let (name, next_hop) = (Sites::path_interface(place), Sites::gateway_address(place, far));
        format!("[[path]]\nname = \"{name}\"\ninterface = \"{name}\"\ngateways = [\"{next_hop}\"]\n")
    });
    let path = if own == 1 { format!("path = \"{}\"\n", Sites::path_interface(1)) } else { String::new() };
    format!(
        "[gateway]\nname = \"site{own}\"\n[sessions]\nkey = \"unused\"\nidle = \"600s\"\n\
         [[local]]\ninterface = \"{}\"\nnetworks = [\"10.{own}.0.0/24\"]\n{}\
         [[remote]]\nname = \"site{far}\"\nnetworks = [\"10.{far}.0.0/24\"]\nsessions = true\n\
         public-key = \"{public}\"\naddresses = [\"{}\", \"{}\"]\n\
         [[translation]]\nnetwork = \"10.1.0.0/24\"\nalias = \"198.51.100.1\"\n{path}",
        Sites::LAN,
        paths.concat(),
        Sites::gateway_address(0, far),
        Sites::gateway_address(1, far)
    )
}
