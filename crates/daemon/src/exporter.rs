use crate::deadline_stream::DeadlineStream;
use crate::host_name::is_own_host;
use crate::listener_thread::ListenerThread;
use crate::metrics_format::MetricsFormat;
use kumade_net::{clock, listener};
use kumade_units::Span;
use socket2::Type;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Serves metrics to Prometheus: replies to `GET /metrics` and `HEAD /metrics`, in OpenMetrics or in Prometheus' text format as
/// the client accepts, until this is dropped. Each client has a thread of its own for the few seconds that it may take, so that
/// a silent one delays no other; nor do any number of them keep it out.
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
    _thread: ListenerThread,
}

/// Why no metrics can be fetched.
#[derive(Debug, Error)]
#[error("cannot serve metrics at {address}: {cause}; choose another address or port")]
pub struct ExporterError {
    address: SocketAddr,
    cause: io::Error,
}

/// Clients at a time; with more, the oldest gives way.
const MAX_CLIENTS: usize = 64;
/// Threads at a time, with those whose client has given way and that end in a moment.
const MAX_THREADS: usize = 2 * MAX_CLIENTS;
/// As the standard library has it.
const BACKLOG: i32 = 128;
/// A longer request is refused.
const MAX_REQUEST_BYTES: usize = 8192;
/// How long one client may take for its request, and again for the response.
const CLIENT_TIMEOUT: Span = Span::from_secs(2);
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

impl Exporter {
    /// Listens. `metrics` is asked for each client, and returns OpenMetrics text.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(address: SocketAddr, metrics: impl FnMut() -> String + Send + 'static) -> Result<Self, ExporterError> {
        Exporter::start_guarded(address, |_| false, |_, _| true, metrics)
    }

    /// As [`start`](Self::start), for those alone whom `may_fetch` lets: who asks, and with which token
    /// (`Authorization: Bearer`). Of names by which it is asked over the loopback interface, besides `localhost`, `is_own_name` knows
    /// those that this host has.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start_guarded(
        address: SocketAddr,
        is_own_name: impl Fn(&str) -> bool + Send + Sync + 'static,
        may_fetch: impl Fn(SocketAddr, Option<&str>) -> bool + Send + Sync + 'static,
        metrics: impl FnMut() -> String + Send + 'static,
    ) -> Result<Self, ExporterError> {
        let failed = |cause| ExporterError { address, cause };
        let listener = listen(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        // Each client's thread holds a copy.
        let source = Arc::new(Source { metrics: Mutex::new(metrics), is_own_name, may_fetch });
        let mut clients = Clients::default();
        let serve = move |(stream, peer): (TcpStream, SocketAddr)| {
            wait_for_threads(&source)?;
            serve_client(clients.admit(stream), peer, source.clone())
        };
        let thread = ListenerThread::start("metrics", listener, TcpListener::accept, serve).map_err(failed)?;
        Ok(Exporter { address: bound, _thread: thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = listener::bind(address, Type::STREAM, |socket| socket.set_reuse_address(true))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The connections of the clients, oldest first.
#[derive(Default)]
struct Clients(VecDeque<Weak<TcpStream>>);

impl Clients {
    fn admit(&mut self, stream: TcpStream) -> Arc<TcpStream> {
        self.0.retain(|client| client.strong_count() > 0);
        if self.0.len() >= MAX_CLIENTS
            && let Some(oldest) = self.0.pop_front().and_then(|client| client.upgrade())
        {
            // Its thread finds it closed, if it is not already.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        let stream = Arc::new(stream);
        self.0.push_back(Arc::downgrade(&stream));
        stream
    }
}

/// Waits for those that end in a moment, which on a busy host takes longer: nobody is turned away because they have not had
/// the processor yet.
fn wait_for_threads<T>(held_by_each: &Arc<T>) -> io::Result<()> {
    let until = clock::monotonic() + CLIENT_TIMEOUT * 2;
    while Arc::strong_count(held_by_each) > MAX_THREADS {
        if clock::monotonic() >= until {
            return Err(io::Error::other("too many clients at a time"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// What clients are answered from.
struct Source<M, N, G> {
    metrics: Mutex<M>,
    is_own_name: N,
    may_fetch: G,
}

fn serve_client(
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    source: Arc<
        Source<
            impl FnMut() -> String + Send + 'static,
            impl Fn(&str) -> bool + Send + Sync + 'static,
            impl Fn(SocketAddr, Option<&str>) -> bool + Send + Sync + 'static,
        >,
    >,
) -> io::Result<()> {
    let work = move || {
        // A panic of one that asked before has been reported; the metrics may still be good.
        let text = || source.metrics.lock().unwrap_or_else(PoisonError::into_inner)();
        // A browser of this host may have a foreign page open, whose name leads here.
        let is_loopback = peer.ip().to_canonical().is_loopback();
        let is_own = |host: &str| !is_loopback || is_own_host(host, true, &source.is_own_name);
        if let Err(error) = respond(&stream, is_own, |token| (source.may_fetch)(peer, token), text) {
            tracing::debug!("metrics: a client failed: {error}");
        }
    };
    thread::Builder::new().name("metrics-client".to_owned()).spawn(work).map(drop)
}

fn respond(
    stream: &TcpStream,
    is_own_host: impl Fn(&str) -> bool,
    may_fetch: impl FnOnce(Option<&str>) -> bool,
    metrics: impl FnOnce() -> String,
) -> io::Result<()> {
    let mut stream = DeadlineStream::new(stream, CLIENT_TIMEOUT)?;
    let request = read_request(&mut stream)?;
    let (status, kind, body) = match &request {
        Some(request) if !request.is_for_metrics() => {
            ("404 Not Found", PLAIN_TEXT, "the metrics are at /metrics\n".into())
        }
        // Whoever names none is no browser.
        Some(request) if !request.host.as_deref().is_none_or(&is_own_host) => (
            "421 Misdirected Request",
            PLAIN_TEXT,
            "the metrics have another name: fetch them by their address, or as http://localhost on this host\n".into(),
        ),
        Some(request) if !may_fetch(request.token.as_deref()) => (
            "401 Unauthorized\r\nWWW-Authenticate: Bearer",
            PLAIN_TEXT,
            "the metrics take a token: send Authorization: Bearer TOKEN\n".into(),
        ),
        Some(request) if ["GET", "HEAD"].contains(&request.method.as_str()) => {
            ("200 OK", request.format.content_type(), request.format.convert(metrics()))
        }
        Some(_) => {
            ("405 Method Not Allowed\r\nAllow: GET, HEAD", PLAIN_TEXT, "only GET and HEAD are supported\n".into())
        }
        None => ("400 Bad Request", PLAIN_TEXT, "this is not an HTTP request\n".into()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let body = if request.is_some_and(|request| request.method == "HEAD") { String::new() } else { body };
    stream.with_new_deadline(CLIENT_TIMEOUT).write_all((head + &body).as_bytes())
}

/// What a client asks for.
struct Request {
    method: String,
    target: String,
    format: MetricsFormat,
    host: Option<String>,
    token: Option<String>,
}

impl Request {
    fn new(request: &httparse::Request<'_, '_>) -> Option<Self> {
        let values = |name: &'static str| {
            let named = request.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| String::from_utf8_lossy(header.value))
        };
        let accept: Vec<_> = values("Accept").collect();
        let authorization = values("Authorization").next();
        let authorization = authorization.as_deref().and_then(|value| value.split_once(' '));
        let bearer = authorization.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
        Some(Request {
            method: request.method?.to_owned(),
            target: request.path?.to_owned(),
            format: MetricsFormat::negotiate(accept.iter().map(|value| &**value)),
            host: values("Host").next().map(Into::into),
            token: bearer.map(|(_, token)| token.to_owned()),
        })
    }

    /// Whatever query stands behind the path, which `http://HOST` may stand before (RFC 9112, 3.2.2).
    fn is_for_metrics(&self) -> bool {
        let target = self.target.split('?').next().unwrap_or_default();
        let path =
            target.strip_prefix("http://").map_or(target, |rest| rest.find('/').map_or("/", |path| &rest[path..]));
        ["/", "/metrics"].contains(&path)
    }
}

/// Within bounds of length and time; `None` if that is not an HTTP request.
fn read_request(stream: &mut impl Read) -> io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while bytes.len() < MAX_REQUEST_BYTES {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk[..count]);
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => return Ok(Request::new(&request)),
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}
