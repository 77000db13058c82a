use crate::lookup_queue::{Lookup, LookupQueue};
use kumade_net::SetupError;
use kumade_noise_session::PublicKey;
use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;

/// Looks names up as the system does, on threads of their own, for that takes its time. Readable when an answer is there.
pub(crate) struct NameResolver {
    answers: Receiver<(PublicKey, ResolvedAddresses)>,
    answer_sender: Sender<(PublicKey, ResolvedAddresses)>,
    wake_receiver: UnixStream,
    wake_sender: Arc<UnixStream>,
    queue: LookupQueue<PublicKey>,
}

/// Who asked, and what was found.
pub(crate) type ResolvedAddresses = (u32, Vec<SocketAddr>);

impl NameResolver {
    pub(crate) fn new() -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("create a socket for answers of name servers", error);
        let (bell, rung) = UnixStream::pair().map_err(failed)?;
        bell.set_nonblocking(true).and_then(|()| rung.set_nonblocking(true)).map_err(failed)?;
        let (answer, answers) = mpsc::channel();
        Ok(NameResolver {
            answers,
            answer_sender: answer,
            wake_receiver: rung,
            wake_sender: Arc::new(bell),
            queue: LookupQueue::default(),
        })
    }

    /// Looks up a name for the stream of a peer that has this number, for as long as `is_wanted` lives.
    pub(crate) fn look_up(&mut self, peer: PublicKey, number: u32, name: &str, port: u16, is_wanted: Weak<()>) {
        self.queue.push(peer, Lookup { number, name: name.to_owned(), port, is_wanted });
        self.start_lookups();
    }

    /// The answers that are there.
    pub(crate) fn take_answers(&mut self) -> Vec<ResolvedAddresses> {
        while matches!((&self.wake_receiver).read(&mut [0; 64]), Ok(64)) {}
        let answers: Vec<_> = self.answers.try_iter().collect();
        answers.iter().for_each(|(peer, _)| self.queue.finish(*peer));
        self.start_lookups();
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    fn start_lookups(&mut self) {
        while let Some((peer, Lookup { number, name, port, .. })) = self.queue.start_next() {
            let (answer, bell) = (self.answer_sender.clone(), Arc::clone(&self.wake_sender));
            let work = move || {
                let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
                let _ = answer.send((peer, (number, found.unwrap_or_default())));
                // Where its buffer is full, it has been rung.
                let _ = (&*bell).write(&[1]);
            };
            if thread::Builder::new().name("resolver".into()).spawn(work).is_err() {
                let _ = self.answer_sender.send((peer, (number, Vec::new())));
                let _ = (&*self.wake_sender).write(&[1]);
            }
        }
    }
}

impl AsFd for NameResolver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_receiver.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::{clock, readiness};
    use kumade_units::Span;
    use std::collections::BTreeMap;

    #[test]
    fn every_name_is_answered_for() {
        let (mut resolver, stream) = (NameResolver::new().unwrap(), Arc::new(()));
        let peer = PublicKey::from_bytes([1; 32]);
        for number in 0..40 {
            let name = if number % 2 == 0 { "127.0.0.1" } else { "no such name" };
            resolver.look_up(peer, number, name, 80, Arc::downgrade(&stream));
        }
        let deadline = clock::monotonic() + Span::from_secs(120);
        let mut answers = BTreeMap::new();
        while answers.len() < 40 {
            assert!(readiness::wait_readable(&resolver, deadline).unwrap(), "an answer in time");
            answers.extend(resolver.take_answers());
        }
        let found = |number: u32| !answers[&number].is_empty();
        assert!((0..40).all(|number| found(number) == (number % 2 == 0)));
    }
}
