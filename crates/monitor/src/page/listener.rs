//! Connections of visitors, so many at a time.

use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at a time; further ones wait until one ends. A browser has six.
const MAX_CONNECTIONS: usize = 512;

/// Accepts connections as long as there is room.
pub(super) struct LimitedListener {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

/// A connection, and its place.
pub(super) struct LimitedStream {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl LimitedListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        LimitedListener { listener, room: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        loop {
            // It is never closed.
            let Ok(place) = self.room.clone().acquire_owned().await else { continue };
            let (stream, address) = Listener::accept(&mut self.listener).await;
            return (LimitedStream { stream, _place: place }, address);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
