//! Connections of visitors: admitted, encrypted where there is a certificate, answered.

use super::admission::{Admission, MAX_CONNECTIONS};
use super::tls::Tls;
use axum::{Extension, Router};
use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use kumade_daemon::{Network, NetworkBudgets};
use kumade_net::clock;
use kumade_units::Span;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// Ends the connection.
    pub(super) end: Arc<Notify>,
}

/// Within which a handshake has to be done, and the head of a request to come; also the next one of a connection: browsers connect again.
const PATIENCE: Duration = Duration::from_secs(15);
/// A request's head is no longer; what waits to be sent is about as much.
const MAX_BUFFER_BYTES: usize = 16 << 10;
/// Of a network's budget: a handshake takes a millisecond at most (RSA of 2048 bits), so that a tenth of the thread is a network's …
const HANDSHAKE_COST: Span = Span::from_millis(10);
/// … and a hundred at once. A browser makes six.
const HANDSHAKE_BURST: Span = Span::from_secs(1);
/// After a connection could not be accepted (too many open files, say), the next one is tried this much later.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Connections that are answered, each on a task of its own.
type Admitted = Arc<Mutex<Admission<Arc<Notify>>>>;

type Failure = Box<dyn Error + Send + Sync>;

/// Takes the connection out of the table when its task ends, however that ends.
struct Place {
    admitted: Admitted,
    id: u64,
}

/// Answers visitors until it is dropped.
pub(super) async fn serve(listener: TcpListener, tls: Tls, router: Router) {
    let admitted: Admitted = Arc::new(Mutex::new(Admission::new(MAX_CONNECTIONS)));
    let mut handshakes = NetworkBudgets::new(HANDSHAKE_BURST);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // One that came by IPv4 to a socket of both versions is one of IPv4.
                let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                let (network, now) = (Network::containing(address.ip()), clock::monotonic());
                if tls.config().is_some() {
                    if handshakes.is_spent(network, now) {
                        continue;
                    }
                    handshakes.charge(network, HANDSHAKE_COST, now);
                }
                let (tls, router, peer) = (tls.clone(), router.clone(), Peer { address, end: Arc::default() });
                let start = |id| {
                    let (place, end) = (Place { admitted: admitted.clone(), id }, peer.end.clone());
                    tokio::spawn(answer(stream, peer, tls, router, place));
                    end
                };
                let leaving = lock(&admitted).admit(address.ip(), start);
                leaving.iter().for_each(|connection| connection.notify_one());
            }
            // Whoever has gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!("the page: cannot accept a visitor: {error}");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Until it ends, or has to give way.
async fn answer(stream: TcpStream, peer: Peer, tls: Tls, router: Router, _place: Place) {
    let (address, end) = (peer.address, peer.end.clone());
    let answered = pin!(talk(stream, peer, tls, router));
    if let Either::Left((Err(error), _)) = select(answered, pin!(end.notified())).await {
        tracing::debug!("the page: {address}: {error}");
    }
}

async fn talk(stream: TcpStream, peer: Peer, tls: Tls, router: Router) -> Result<(), Failure> {
    match tls.config() {
        None => speak_http(stream, peer, router).await,
        Some(config) => {
            let encrypted = tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await??;
            speak_http(encrypted, peer, router).await
        }
    }
}

async fn speak_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: Peer,
    router: Router,
) -> Result<(), Failure> {
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MAX_BUFFER_BYTES);
    Ok(protocol.serve_connection(TokioIo::new(stream), service).await?)
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.admitted).remove(self.id);
    }
}

fn lock(admitted: &Admitted) -> MutexGuard<'_, Admission<Arc<Notify>>> {
    // A panic elsewhere has been reported; the table is whole after each step.
    admitted.lock().unwrap_or_else(PoisonError::into_inner)
}
