//! The thread that sends.

use super::RemoteWriteConfig;
use super::exporter::{RemoteWriteExporter, Wake};
use super::http::RemoteWriteClient;
use super::position::Position;
use super::progress::RemoteWriteProgress;
use kumade_archive::{ReadStore, Reader};
use kumade_net::clock;
use kumade_units::Span;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

/// Until an archive that cannot be read is tried again.
const ARCHIVE_RETRY_INTERVAL: Span = Span::from_secs(10);

/// What the thread tells.
#[derive(Debug)]
pub(crate) enum RemoteWriteNews {
    /// Store this, by [`Position::STATE_KEY`].
    Position(Vec<u8>),
    /// It goes otherwise than before.
    Progress(RemoteWriteProgress),
}

/// Sends until it is dropped. A request that is under way then is not waited for.
#[derive(Debug)]
pub(crate) struct RemoteWriteSender {
    _stop: mpsc::Sender<()>,
}

impl RemoteWriteSender {
    /// Goes on after a position. Minutes are complete `settle` after their end.
    pub(crate) fn start<S: ReadStore + 'static>(
        client: RemoteWriteClient,
        config: &RemoteWriteConfig,
        mut reader: Reader<S>,
        settle: Span,
        tell: impl FnMut(RemoteWriteNews) + Send + 'static,
    ) -> io::Result<Self> {
        let position = reader.state(Position::STATE_KEY).map_err(io::Error::other)?;
        let position = Position::decode(position.as_deref());
        let exporter = RemoteWriteExporter::new(reader, position, settle, config.max_age);
        let (stop, stopped) = mpsc::channel();
        let work = move || run(exporter, &client, &stopped, tell);
        thread::Builder::new().name("remote-write".into()).spawn(work)?;
        Ok(RemoteWriteSender { _stop: stop })
    }
}

fn run<S: ReadStore>(
    mut exporter: RemoteWriteExporter<S>,
    client: &RemoteWriteClient,
    stopped: &mpsc::Receiver<()>,
    mut tell: impl FnMut(RemoteWriteNews),
) {
    let mut told = RemoteWriteProgress::default();
    let mut wait = Span::ZERO;
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait.to_duration()) {
        let now = clock::monotonic();
        wait = Span::ZERO;
        let mut progress = exporter.progress().clone();
        match exporter.next_step(now, clock::realtime()) {
            Ok(Wake::Send(body)) => {
                let (answer, receiver_time) = client.send(&body);
                exporter.take_answer(&answer, receiver_time, clock::monotonic(), clock::realtime());
                progress = exporter.progress().clone();
            }
            Ok(Wake::Store(position)) => tell(RemoteWriteNews::Position(position)),
            Ok(Wake::Wait(until)) => wait = (until - now).max(Span::ZERO),
            Err(error) => {
                progress.failure = Some(error.to_string());
                wait = ARCHIVE_RETRY_INTERVAL;
            }
        }
        if progress != told {
            told = progress.clone();
            tell(RemoteWriteNews::Progress(progress));
        }
    }
}
