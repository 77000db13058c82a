use crate::deadline_stream::DeadlineStream;
use crate::listener_thread::ListenerThread;
use kumade_net::clock;
use kumade_units::Span;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Serves metrics to Prometheus: replies to `GET /metrics`, until this is dropped. Each client has a thread of its own for
/// the few seconds that it may take, so that a silent one delays no other; nor do any number of them keep it out.
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
/// A longer request is refused.
const MAX_REQUEST_BYTES: usize = 8192;
/// How long one client may take for its request, and again for the response.
const CLIENT_TIMEOUT: Span = Span::from_secs(2);
/// As the format's specification has it.
const OPENMETRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Exporter {
    /// Listens. `metrics` is asked for each client, and returns OpenMetrics text.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(address: SocketAddr, metrics: impl FnMut() -> String + Send + 'static) -> Result<Self, ExporterError> {
        let failed = |cause| ExporterError { address, cause };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        // Each client's thread holds a copy.
        let metrics = Arc::new(Mutex::new(metrics));
        let mut clients = Clients::default();
        let serve = move |(stream, _): (TcpStream, _)| {
            wait_for_threads(&metrics)?;
            serve_client(clients.admit(stream), metrics.clone())
        };
        let thread = ListenerThread::start("metrics", listener, TcpListener::accept, serve).map_err(failed)?;
        Ok(Exporter { address: bound, _thread: thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
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

fn serve_client(
    stream: Arc<TcpStream>,
    metrics: Arc<Mutex<impl FnMut() -> String + Send + 'static>>,
) -> io::Result<()> {
    // A panic of one that asked before has been reported; the metrics may still be good.
    let text = move || metrics.lock().unwrap_or_else(PoisonError::into_inner)();
    let work = move || {
        if let Err(error) = respond(&stream, text) {
            tracing::debug!("metrics: a client failed: {error}");
        }
    };
    thread::Builder::new().name("metrics-client".to_owned()).spawn(work).map(drop)
}

fn respond(stream: &TcpStream, metrics: impl FnOnce() -> String) -> io::Result<()> {
    let mut stream = DeadlineStream::new(stream, CLIENT_TIMEOUT)?;
    let (status, kind, body) = match read_request(&mut stream)? {
        Some((method, path)) if path == "/metrics" || path == "/" => match method.as_str() {
            "GET" => ("200 OK", OPENMETRICS_CONTENT_TYPE, metrics()),
            _ => ("405 Method Not Allowed", "text/plain", "only GET is supported\n".to_owned()),
        },
        Some(_) => ("404 Not Found", "text/plain", "the metrics are at /metrics\n".to_owned()),
        None => ("400 Bad Request", "text/plain", "this is not an HTTP request\n".to_owned()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.with_new_deadline(CLIENT_TIMEOUT).write_all((head + &body).as_bytes())
}

/// Reads method and path, within bounds of length and time; `None` if that is not an HTTP request.
fn read_request(stream: &mut impl Read) -> io::Result<Option<(String, String)>> {
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
            Ok(httparse::Status::Complete(_)) => {
                return Ok(request.method.zip(request.path).map(|(method, path)| (method.into(), path.into())));
            }
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}
