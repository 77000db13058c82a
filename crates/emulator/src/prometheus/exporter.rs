use super::metrics;
use crate::listener_thread::ListenerThread;
use crate::report::Document;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Answers `GET /metrics` by a thread until this is dropped. Clients are served one after the other.
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
    _thread: ListenerThread,
}

/// Why nothing can be fetched.
#[derive(Debug, Error)]
#[error("cannot offer metrics at {address}: {cause}; choose another address or port")]
pub struct ExporterError {
    address: SocketAddr,
    cause: io::Error,
}

/// No request that makes sense is longer.
const MAX_REQUEST_BYTES: usize = 8192;
/// How long one client may take in all.
const PATIENCE: Duration = Duration::from_secs(2);
/// As the format's specification has it.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Exporter {
    /// Listens; `total` gives the document of all since the start.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(
        address: SocketAddr,
        mut total: impl FnMut() -> Document + Send + 'static,
    ) -> Result<Self, ExporterError> {
        let failed = |cause| ExporterError { address, cause };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let answer_next = move |(stream, _): (TcpStream, _)| answer(&stream, &mut total);
        let thread = ListenerThread::start("metrics", listener, TcpListener::accept, answer_next).map_err(failed)?;
        Ok(Exporter { address: bound, _thread: thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn answer(mut stream: &TcpStream, total: &mut impl FnMut() -> Document) -> io::Result<()> {
    let (status, kind, body) = match request(stream)? {
        Some((method, path)) if path == "/metrics" || path == "/" => match method.as_str() {
            "GET" => ("200 OK", TEXT, metrics(&total())),
            _ => ("405 Method Not Allowed", "text/plain", "only GET is understood\n".to_owned()),
        },
        Some(_) => ("404 Not Found", "text/plain", "the metrics are at /metrics\n".to_owned()),
        None => ("400 Bad Request", "text/plain", "this is no HTTP request\n".to_owned()),
    };
    let length = body.len();
    stream.set_write_timeout(Some(PATIENCE))?;
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes())
}

/// Reads method and path, within bounds of length and time; `None` for what is no request.
fn request(mut stream: &TcpStream) -> io::Result<Option<(String, String)>> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while bytes.len() < MAX_REQUEST_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        // Zero would mean to wait for ever.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let count = stream.read(&mut chunk)?;
        if count == 0 || left.is_zero() {
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
