//! Answers that their visitors have not taken yet.

use super::admission::Admission;
use super::connections::Peer;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// Large answers at a time, of some megabytes at most: where there are more, the connection with the oldest one of the network that has
/// most of them is closed.
const MAX_UNSENT: usize = 64;
/// A smaller answer is not counted: each connection may have one.
const LARGE_BYTES: usize = 64 << 10;
/// Handed over at a time: what waits for the visitor is still in the body then.
const PIECE_BYTES: usize = 16 << 10;

/// Bounds the memory that visitors take who ask for much and read nothing.
#[derive(Debug, Clone)]
pub(super) struct UnsentAnswers(Arc<Mutex<Admission<Arc<Notify>>>>);

/// An answer, in pieces.
struct UnsentBody {
    rest: Bytes,
    answers: UnsentAnswers,
    id: u64,
}

impl UnsentAnswers {
    pub(super) fn new() -> Self {
        UnsentAnswers(Arc::new(Mutex::new(Admission::new(MAX_UNSENT))))
    }

    /// The answer, which counts until it has been taken.
    pub(super) fn body(&self, answer: impl Into<Bytes>, peer: &Peer) -> Body {
        let answer = answer.into();
        if answer.len() < LARGE_BYTES {
            return Body::from(answer);
        }
        let mut number = 0;
        let end = |id| {
            number = id;
            peer.end.clone()
        };
        let leaving = self.lock().admit(peer.address.ip(), end);
        leaving.iter().for_each(|connection| connection.notify_one());
        Body::new(UnsentBody { rest: answer, answers: self.clone(), id: number })
    }

    fn lock(&self) -> MutexGuard<'_, Admission<Arc<Notify>>> {
        // A panic elsewhere has been reported; the table is whole after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for UnsentBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.rest.len().min(PIECE_BYTES);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

impl Drop for UnsentBody {
    fn drop(&mut self) {
        self.answers.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;

    fn peer(network: u8) -> Peer {
        Peer { address: ([192, 0, network, 1], 1).into(), end: Arc::default() }
    }

    #[test]
    fn who_takes_no_answers_is_left_before_others_are() {
        let (answers, honest) = (UnsentAnswers::new(), peer(1));
        let answer = || vec![7; LARGE_BYTES];
        let mut taken = answers.body(answer(), &honest);
        let hostile: Vec<_> = (0..100).map(|_| peer(2)).collect();
        let bodies: Vec<_> = hostile.iter().map(|peer| answers.body(answer(), peer)).collect();
        let left = |peer: &Peer| pin!(peer.end.notified()).now_or_never().is_some();
        assert_eq!(hostile.iter().filter(|peer| left(peer)).count(), 100 - (MAX_UNSENT - 1));
        assert!(!left(&honest));
        assert_eq!(taken.size_hint().exact(), Some(LARGE_BYTES as u64));
        let mut bytes = 0;
        let mut next = || std::future::poll_fn(|cx| Pin::new(&mut taken).poll_frame(cx)).now_or_never().unwrap();
        while let Some(frame) = next() {
            bytes += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(bytes, LARGE_BYTES);
        drop((taken, bodies));
        for _ in 0..2 {
            assert_eq!(answers.body(vec![7; 10], &honest).size_hint().exact(), Some(10), "it is not counted");
        }
        assert!(!left(&honest));
    }
}
