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
pub(crate) struct Resolver {
    answers: Receiver<Answer>,
    answer: Sender<Answer>,
    rung: UnixStream,
    bell: Arc<UnixStream>,
    running: usize,
    waiting: VecDeque<(u32, String, u16)>,
}

/// Who asked, and what was found.
pub(crate) type Answer = (u32, Vec<SocketAddr>);

/// Looked up at a time.
const MAX_RUNNING: usize = 16;

impl Resolver {
    pub(crate) fn new() -> Result<Self, SetupError> {
        let failed = |error| SetupError::new("create a socket for answers of name servers", error);
        let (bell, rung) = UnixStream::pair().map_err(failed)?;
        bell.set_nonblocking(true).and_then(|()| rung.set_nonblocking(true)).map_err(failed)?;
        let (answer, answers) = mpsc::channel();
        Ok(Resolver { answers, answer, rung, bell: Arc::new(bell), running: 0, waiting: VecDeque::new() })
    }

    /// Looks up a name for who has this number.
    pub(crate) fn ask(&mut self, number: u32, name: &str, port: u16) {
        self.waiting.push_back((number, name.to_owned(), port));
        self.start();
    }

    /// The answers that are there.
    pub(crate) fn answers(&mut self) -> Vec<Answer> {
        while matches!((&self.rung).read(&mut [0; 64]), Ok(64)) {}
        let answers: Vec<_> = self.answers.try_iter().collect();
        self.running -= answers.len();
        self.start();
        answers
    }

    fn start(&mut self) {
        while self.running < MAX_RUNNING {
            let Some((number, name, port)) = self.waiting.pop_front() else { return };
            let (answer, bell) = (self.answer.clone(), Arc::clone(&self.bell));
            let work = move || {
                let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
                let _ = answer.send((number, found.unwrap_or_default()));
                // Where its buffer is full, it has been rung.
                let _ = (&*bell).write(&[1]);
            };
            self.running += 1;
            if thread::Builder::new().name("resolver".into()).spawn(work).is_err() {
                let _ = self.answer.send((number, Vec::new()));
                let _ = (&*self.bell).write(&[1]);
            }
        }
    }
}

impl AsFd for Resolver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.rung.as_fd()
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
        let mut resolver = Resolver::new().unwrap();
        for number in 0..40 {
            resolver.ask(number, if number % 2 == 0 { "127.0.0.1" } else { "no such name" }, 80);
        }
        let deadline = clock::monotonic() + Span::from_secs(120);
        let mut answers = BTreeMap::new();
        while answers.len() < 40 {
            assert!(readiness::readable(&resolver, deadline).unwrap(), "an answer in time");
            answers.extend(resolver.answers());
        }
        let found = |number: u32| !answers[&number].is_empty();
        assert!((0..40).all(|number| found(number) == (number % 2 == 0)));
    }
}
