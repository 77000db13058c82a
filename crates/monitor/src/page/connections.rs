//! Connections of visitors: admitted, encrypted where there is a certificate, answered.

use super::admission::{Admission, MAX_CONNECTIONS};
use super::tls::Tls;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Within which a handshake has to be done, and the head of a request to come; also the next one of a connection: browsers connect again.
const PATIENCE: Duration = Duration::from_secs(15);
/// A request's head is no longer; what waits to be sent is about as much.
const MAX_BUFFER_BYTES: usize = 16 << 10;
/// After a connection could not be accepted (too many open files, say), the next one is tried this much later.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Connections that are answered, each on a task of its own.
type Admitted = Arc<Mutex<Admission<AbortHandle>>>;

/// Takes the connection out of the table when its task ends, however that ends.
struct Place {
    admitted: Admitted,
    id: u64,
}

/// Answers visitors until it is dropped.
pub(super) async fn serve(listener: TcpListener, tls: Tls, router: Router) {
    let admitted: Admitted = Arc::new(Mutex::new(Admission::new(MAX_CONNECTIONS)));
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let (tls, router, table) = (tls.clone(), router.clone(), admitted.clone());
                let start = |id| {
                    let place = Place { admitted: table, id };
                    tokio::spawn(answer(stream, address, tls, router, place)).abort_handle()
                };
                let leaving = lock(&admitted).admit(address.ip(), start);
                leaving.iter().for_each(AbortHandle::abort);
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

async fn answer(stream: TcpStream, address: SocketAddr, tls: Tls, router: Router, _place: Place) {
    let answered = match tls.config() {
        None => talk(stream, address, router).await,
        Some(config) => match tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await {
            Ok(Ok(stream)) => talk(stream, address, router).await,
            Ok(Err(error)) => Err(error.into()),
            Err(elapsed) => Err(elapsed.into()),
        },
    };
    if let Err(error) = answered {
        tracing::debug!("the page: {address}: {error}");
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    address: SocketAddr,
    router: Router,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let service = TowerToHyperService::new(router.layer(Extension(Peer(address))));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MAX_BUFFER_BYTES);
    Ok(protocol.serve_connection(TokioIo::new(stream), service).await?)
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.admitted).remove(self.id);
    }
}

fn lock(admitted: &Admitted) -> MutexGuard<'_, Admission<AbortHandle>> {
    // A panic elsewhere has been reported; the table is whole after each step.
    admitted.lock().unwrap_or_else(PoisonError::into_inner)
}
