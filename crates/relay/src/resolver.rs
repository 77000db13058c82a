use kumade_net::SetupError;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// Looks names up as the system does, on threads of their own, for that takes its time. Readable when an answer is there.
pub(crate) struct NameResolver {
    answers: Receiver<ResolvedAddresses>,
    answer_sender: Sender<ResolvedAddresses>,
    wake_receiver: UnixStream,
    wake_sender: Arc<UnixStream>,
    running_lookups: usize,
    waiting: VecDeque<(u32, String, u16)>,
}

/// Who asked, and what was found.
pub(crate) type ResolvedAddresses = (u32, Vec<SocketAddr>);

/// Looked up at a time.
const MAX_RUNNING_LOOKUPS: usize = 16;

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
            running_lookups: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Looks up a name for who has this number.
    pub(crate) fn look_up(&mut self, number: u32, name: &str, port: u16) {
        self.waiting.push_back((number, name.to_owned(), port));
        self.start_lookups();
    }

    /// The answers that are there.
    pub(crate) fn take_answers(&mut self) -> Vec<ResolvedAddresses> {
        while matches!((&self.wake_receiver).read(&mut [0; 64]), Ok(64)) {}
        let answers: Vec<_> = self.answers.try_iter().collect();
        self.running_lookups -= answers.len();
        self.start_lookups();
        answers
    }

    fn start_lookups(&mut self) {
        while self.running_lookups < MAX_RUNNING_LOOKUPS {
            let Some((number, name, port)) = self.waiting.pop_front() else { return };
            let (answer, bell) = (self.answer_sender.clone(), Arc::clone(&self.wake_sender));
            let work = move || {
                let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
                let _ = answer.send((number, found.unwrap_or_default()));
                // Where its buffer is full, it has been rung.
                let _ = (&*bell).write(&[1]);
            };
            self.running_lookups += 1;
            if thread::Builder::new().name("resolver".into()).spawn(work).is_err() {
                let _ = self.answer_sender.send((number, Vec::new()));
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
        let mut resolver = NameResolver::new().unwrap();
        for number in 0..40 {
            resolver.look_up(number, if number % 2 == 0 { "127.0.0.1" } else { "no such name" }, 80);
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
