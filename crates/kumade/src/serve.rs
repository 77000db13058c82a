//! `kumade serve`: the server of measurements.

use crate::confinement::{Confinement, port_capability};
use crate::descriptors::raise_descriptor_limit;
use crate::key;
use crate::output::note;
use crate::port_ranges::PortRanges;
use anyhow::{Context, anyhow};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use kumade_daemon::signals::DaemonSignals;
use kumade_serve::{
    ClientChanges, ClientReplacer, DEFAULT_PORT, NamedClient, Reflector, ReflectorConfig, STAMP_PORT, ServeError,
    Server, ServerConfig, parse_clients,
};
use kumade_units::{Span, Time, parse};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

/// [`STAMP_PORT`] as an option's default.
const STAMP_PORT_TEXT: &str = "862";

/// Serve measurements on one port number, TCP and UDP
///
/// Many clients may be connected at once; their measurements run one after the other, so that they don't disturb each
/// other. Turns go round by network (IPv4 /24, IPv6 /48), and end 5 s after the last packet train. Ctrl-C or SIGTERM stops
/// the server.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address, port, or both to listen on, such as 7273 or 127.0.0.1:7273 [default: port 7272 on all addresses, IPv6
    /// and IPv4]
    #[arg(long, value_name = "[ADDRESS][:PORT]", value_parser = |text: &str| kumade_daemon::listen_address(text, DEFAULT_PORT))]
    listen: Option<SocketAddr>,
    /// Pre-shared key: serve only clients that have it, and encrypt the control connection. A file with 64 hexadecimal
    /// digits (`kumade key preshared --output FILE`)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Serve only the clients that this file names (TOML). Each has a key of its own, which it gives to `kumade measure --key`,
    /// and may have quotas: [[client]] name = "campus", key = "FILE" (or inline-key = "64 digits"), bytes-per-day = "20gb",
    /// measurements-per-hour = 12, load = false. SIGHUP has it read again
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    clients: Option<PathBuf>,
    /// Append a line of JSON to this file for each measurement at its end, and for clients without a valid key
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Maximum number of clients at once, queued ones included; beyond it, the network (IPv4 /24, IPv6 /48) with most of
    /// them gives way
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    max_clients: usize,
    /// Maximum number of probe connections of one client
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_connections: u32,
    /// Maximum number of probe bytes in one client's turn, both directions together, such as 64mb [default: 4 GB]
    #[arg(long, value_name = "SIZE", value_parser = parse::byte_count)]
    max_bytes: Option<u64>,
    /// Maximum time of one client's turn, such as 60s; 10 to 30 s while other clients wait [default: 180s]
    #[arg(long, value_name = "TIME", value_parser = parse::span)]
    max_time: Option<Span>,
    /// Ports, such as 53,443,5060-5070, at which a client may have the server listen by UDP and TCP in its turn, for itself alone, to see
    /// whether they pass (`kumade measure --ports`), and behind which kind of NAT it is [default: none; for NAT, any free one]
    #[arg(long, value_name = "PORTS")]
    ports: Option<PortRanges>,
    /// Another address of this host at which the server listens at these ports as well, so that clients see whether a NAT depends on the
    /// address; one of each version of IP
    #[arg(long, value_name = "ADDRESS")]
    second_address: Vec<IpAddr>,
    /// Maximum time for which flows of a client are kept while they are idle, beyond its turn, to see after which time a NAT or firewall
    /// forgets them (`kumade measure --idle-timeouts`); 0s to keep none
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = parse::span)]
    max_flow_idle: Span,
    /// Also run a STAMP reflector (RFC 8762, 8972) for any STAMP or TWAMP Light sender; an answer has the size of its test packet. With
    /// --key or --stamp-key, for authenticated STAMP alone [default port: 862, which requires privileges]
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = STAMP_PORT_TEXT)]
    stamp: Option<u16>,
    /// Pre-shared key of authenticated STAMP; required by --stamp with --clients [default: that of --key]
    #[arg(long, value_name = "FILE", requires = "stamp")]
    stamp_key: Option<PathBuf>,
    /// Do not tell senders of STAMP packets between which addresses these came (Location, RFC 8972): behind address translation, they are
    /// inside ones
    #[arg(long, requires = "stamp")]
    stamp_withhold_location: bool,
    /// Keep what is not needed once the server listens: capabilities, files, outgoing connections, other system calls
    #[arg(long)]
    keep_privileges: bool,
}

/// Serves until a signal arrives.
///
/// # Errors
/// If a key or the access log can't be opened, a port can't be bound, or waiting for sockets fails.
pub fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let keeps_privileges = args.keep_privileges;
    let (mut config, readable) = server_config(&args)?;
    let mut reflector = bind_reflector(&args, &config)?;
    config.max_pending = config.max_pending.min(raise_descriptor_limit() / 2);
    let is_open = config.key.is_none() && config.clients.is_empty();
    let signals = DaemonSignals::register(args.clients.is_some()).context("cannot listen for signals")?;
    let stop = AtomicBool::new(false);
    let ports = config.ports.clone();
    let mut server = Server::bind(config).map_err(|error| with_hint(&error, LISTEN_OPTION))?;
    let (address, replacer) = (server.local_addr(), server.client_replacer());
    let port = if address.port() == DEFAULT_PORT { String::new() } else { format!(":{}", address.port()) };
    // As it was before others had a time: scripts wait for a line that begins so.
    note!("listening on {address} (TCP and UDP); measure with: kumade measure HOST{port}");
    if is_open {
        tracing::info!(
            "everybody who reaches this port may measure: --key FILE or --clients FILE serves only who has a key"
        );
    }
    if !keeps_privileges {
        confine_server(address.port(), &readable, &ports);
    }
    let mut stop_wakers = vec![signals.waker(), server.stop_waker()];
    stop_wakers.extend(reflector.as_mut().map(Reflector::stop_waker));
    let end_all = || {
        stop.store(true, Ordering::SeqCst);
        stop_wakers.iter().for_each(|waker| waker.wake());
    };
    std::thread::scope(|scope| {
        let watch = || {
            while !stop.load(Ordering::SeqCst) {
                // Without signals it would serve for ever.
                let has_failed = signals.wait(Time::MAX).inspect_err(|error| tracing::error!("{error}")).is_err();
                if signals.take_reload_request()
                    && let Some(file) = &args.clients
                {
                    reload_clients(file, &replacer);
                }
                if has_failed || signals.is_end_requested() {
                    end_all();
                }
            }
        };
        let watching = std::thread::Builder::new().name("signals".into()).spawn_scoped(scope, watch);
        watching.context("cannot start a thread for signals")?;
        let start = |reflector: Reflector| {
            std::thread::Builder::new().name("stamp".into()).spawn_scoped(scope, || reflector.run(&stop))
        };
        let reflecting = reflector.map(start).transpose();
        // The one above would wait for it for ever.
        let reflecting =
            reflecting.inspect_err(|_| end_all()).context("cannot start a thread for the STAMP reflector")?;
        let served = server.run(&stop).map_err(|error| anyhow!("{error}"));
        // The others stop with the server, for whatever reason.
        end_all();
        served?;
        match reflecting.map(ScopedJoinHandle::join) {
            Some(Ok(reflected)) => reflected.map_err(|error| anyhow!("{error}")),
            Some(Err(_)) => Err(anyhow!("the STAMP reflector failed")),
            None => Ok(()),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves those that the file of clients names now; if it makes no sense, those that it named before.
fn reload_clients(file: &Path, replacer: &ClientReplacer) {
    match read_clients(file) {
        Ok(NamedClients { clients, .. }) => {
            let ClientChanges { added, removed } = replacer.replace(&clients);
            let words = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            tracing::info!(
                "{}: read again: {} clients; added: {}; removed: {}",
                file.display(),
                clients.len(),
                words(added),
                words(removed)
            );
        }
        Err(error) => tracing::error!("the clients stay as they were: {error:#}"),
    }
}

/// Each client has a socket on the server's port, which may be a privileged one, and may have the server listen at others. Beyond that, only
/// the file of clients and the keys that it names are read again.
fn confine_server(port: u16, readable: &[PathBuf], ports: &[RangeInclusive<u16>]) {
    let mut confinement = Confinement::default();
    let lowest = ports.iter().map(|range| *range.start());
    confinement.drop_capabilities(port_capability(lowest.chain([port])).as_slice());
    // A port of the system's choice shows clients their NAT.
    let listened: Vec<_> = ports.iter().cloned().chain([0..=0]).collect();
    confinement.deny_files_and_connections(readable, &listened);
    confinement.finish();
}

/// The options that set the addresses, for error messages.
const LISTEN_OPTION: &str = "--listen";
const STAMP_OPTION: &str = "--stamp PORT";

/// The error with what to try, which names the option that sets the address.
fn with_hint(error: &ServeError, option: &str) -> anyhow::Error {
    let hint = match error {
        ServeError::Listen { cause, .. } => match cause.kind() {
            io::ErrorKind::AddrInUse => format!("; another program uses that port: choose another port with {option}"),
            io::ErrorKind::AddrNotAvailable => "; this host does not have that address".to_owned(),
            io::ErrorKind::PermissionDenied => format!(
                "; ports below 1024 require privileges: choose a higher one with {option} (and give it to `kumade \
                 measure`), or run setcap cap_net_bind_service+ep on the program"
            ),
            _ => String::new(),
        },
        ServeError::Wait(_) => String::new(),
    };
    anyhow!("{error}{hint}")
}

/// Binds the reflector, if there is to be one, to the server's address.
fn bind_reflector(args: &ServeArgs, server: &ServerConfig) -> anyhow::Result<Option<Reflector>> {
    let Some(port) = args.stamp else { return Ok(None) };
    let ip = server.listen.map_or(Ipv6Addr::UNSPECIFIED.into(), |address| address.ip());
    let listen = Some((ip, port).into());
    let key = match args.stamp_key.as_deref().map(key::read_preshared_key).transpose()? {
        None if !server.clients.is_empty() => {
            return Err(anyhow!(
                "--stamp has one key for all its senders, which is none of the clients': give it by --stamp-key FILE"
            ));
        }
        key => key.or_else(|| server.key.clone()),
    };
    let withholds_location = args.stamp_withhold_location;
    let config = ReflectorConfig { listen, key, withholds_location, ..ReflectorConfig::default() };
    let reflector = Reflector::bind(&config).map_err(|error| with_hint(&error, STAMP_OPTION))?;
    let address = reflector.local_addr();
    let port = if address.port() == STAMP_PORT { String::new() } else { format!(":{}", address.port()) };
    tracing::info!("reflecting STAMP on {address} (UDP); measure with: kumade measure --stamp HOST{port}");
    Ok(Some(reflector))
}

/// The clients of a file.
#[derive(Default)]
struct NamedClients {
    clients: Vec<NamedClient>,
    /// Where the file is, and those of the keys that it names.
    directories: BTreeSet<PathBuf>,
}

/// Reads the file of clients, and the keys that it names.
fn read_clients(path: &Path) -> anyhow::Result<NamedClients> {
    let text = key::read_clients_file(path)?;
    let mut directories = BTreeSet::from([directory_of(path)]);
    let read_key = |file: &Path| {
        directories.insert(directory_of(file));
        key::read_preshared_key(file).map_err(|error| format!("{error:#}"))
    };
    let clients = parse_clients(&text, &path.display().to_string(), read_key)?;
    Ok(NamedClients { clients, directories })
}

fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Opens the file for appending, or makes one that only its owner and group may read: it names clients.
fn open_access_log(path: &Path) -> anyhow::Result<Arc<File>> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
    opened.map(Arc::new).with_context(|| format!("cannot open the access log {}", path.display()))
}

/// With it, where the files are that may be read again.
fn server_config(args: &ServeArgs) -> anyhow::Result<(ServerConfig, Vec<PathBuf>)> {
    let named = args.clients.as_deref().map(read_clients).transpose()?;
    let NamedClients { clients, directories } = named.unwrap_or_default();
    let mut config = ServerConfig {
        listen: args.listen,
        key: args.key.as_deref().map(key::read_preshared_key).transpose()?,
        clients,
        access_log: args.access_log.as_deref().map(open_access_log).transpose()?,
        max_clients: args.max_clients,
        ports: args.ports.clone().map(|ports| ports.0).unwrap_or_default(),
        second_addresses: args.second_address.clone(),
        max_flow_idle: args.max_flow_idle,
        ..ServerConfig::default()
    };
    config.limits.connections = args.max_connections;
    config.limits.bytes = args.max_bytes.unwrap_or(config.limits.bytes);
    config.limits.turn = args.max_time.unwrap_or(config.limits.turn);
    Ok((config, directories.into_iter().collect()))
}
