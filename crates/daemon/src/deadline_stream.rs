use kumade_net::{clock, readiness};
use kumade_units::{Span, Time};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

/// A stream socket of which all reading and writing must be done by a deadline, however little the peer sends or takes at a
/// time.
#[derive(Debug)]
pub(crate) struct DeadlineStream<'s, S> {
    stream: &'s S,
    deadline: Time,
}

impl<'s, S: AsFd> DeadlineStream<'s, S> {
    pub(crate) fn new(stream: &'s S, limit: Span) -> io::Result<Self> {
        socket2::SockRef::from(stream).set_nonblocking(true)?;
        Ok(DeadlineStream { stream, deadline: clock::monotonic() + limit })
    }

    /// The same stream for another while.
    pub(crate) fn with_new_deadline(&self, limit: Span) -> Self {
        DeadlineStream { stream: self.stream, deadline: clock::monotonic() + limit }
    }

    fn retry_when_ready<T>(
        &self,
        is_ready: fn(&S, Time) -> io::Result<bool>,
        mut attempt: impl FnMut(&'s S) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt(self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            if !is_ready(self.stream, self.deadline)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// A peer that always has something to read could go on for ever.
    fn check_deadline(&self) -> io::Result<()> {
        if clock::monotonic() < self.deadline { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

impl<'s, S: AsFd> Read for DeadlineStream<'s, S>
where
    &'s S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.check_deadline()?;
        self.retry_when_ready(readiness::wait_readable, |mut stream| stream.read(buffer))
    }
}

impl<'s, S: AsFd> Write for DeadlineStream<'s, S>
where
    &'s S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check_deadline()?;
        self.retry_when_ready(readiness::wait_writable, |mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
