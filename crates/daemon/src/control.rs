use crate::deadline_stream::DeadlineStream;
use crate::listener_thread::ListenerThread;
use crate::lock_file;
use crate::name_lock::{NameLock, NameLockError, check_name};
use crate::runtime_dir::RuntimeDir;
use crate::socket_file::{self, SocketFile};
use kumade_units::Span;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What a kind of service may be asked, and what it replies.
///
/// A conversation is a line each way: the protocol, a space, and a value in JSON. Who speaks another protocol, or another
/// version of it, is told so.
pub trait Protocol: 'static {
    /// The kind of service, such as `link`. Its sockets are named after it, and messages to people.
    const SERVICE: &'static str;
    /// Changed whenever older programs would misunderstand a message.
    const VERSION: u32;
    /// What is asked.
    type Request: Serialize + DeserializeOwned;
    /// What is replied.
    type Reply: Serialize + DeserializeOwned;
}

/// The running services of one kind, by their names.
#[derive(Debug, Clone)]
pub struct Registry<P> {
    directory: RuntimeDir,
    protocol: PhantomData<fn() -> P>,
}

/// A name that no other service of this kind can have; it answers no requests yet.
#[derive(Debug)]
pub struct ClaimedName<P> {
    name_lock: NameLock,
    socket: PathBuf,
    protocol: PhantomData<fn() -> P>,
}

/// A service's control socket, answered by a thread until this is dropped.
#[derive(Debug)]
pub struct ControlServer {
    // Ends before the socket goes, and that before the claim.
    _thread: ListenerThread,
    socket: SocketFile,
    _name_lock: NameLock,
}

/// Why a service cannot be asked, or cannot be made to answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The name is impossible, or cannot be had.
    #[error(transparent)]
    NameLock(#[from] NameLockError),
    /// Another service of this kind has the name.
    #[error("a {service} called `{name}` runs already (process {process}): end it, or choose another name")]
    NameTaken {
        /// What kind of service.
        service: &'static str,
        /// Which name.
        name: String,
        /// Its process.
        process: String,
    },
    /// No service has the name.
    #[error("no {service} called `{name}` runs here{}", describe_alternatives(.running, .foreign.as_deref()))]
    NotRunning {
        /// What kind of service.
        service: &'static str,
        /// Which name.
        name: String,
        /// The names of those that run.
        running: Vec<String>,
        /// A directory of another user, whose services cannot be asked.
        foreign: Option<PathBuf>,
    },
    /// It runs, and speaks another protocol.
    #[error("the {service} speaks {found} in place of {expected}: it runs another version of this program")]
    VersionMismatch {
        /// What kind of service.
        service: &'static str,
        /// Its protocol.
        found: String,
        /// This program's protocol.
        expected: String,
    },
    /// It could not make sense of the request.
    #[error("the {service} refuses the request: {reason}")]
    Refused {
        /// What kind of service.
        service: &'static str,
        /// Its reason.
        reason: String,
    },
    /// The socket failed.
    #[error("cannot use the control socket {}: {cause}", socket.display())]
    Io {
        /// The socket.
        socket: PathBuf,
        /// What happened.
        cause: io::Error,
    },
}

/// What stands behind the protocol in a reply.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WireReply<R> {
    Reply(R),
    Error(String),
}

/// No request or reply is longer.
const MAX_MESSAGE_BYTES: u64 = 4 << 20;
/// How long either side may take for its message. Other clients wait meanwhile.
const MESSAGE_TIMEOUT: Span = Span::from_secs(5);

impl<P: Protocol> Registry<P> {
    /// The services whose files are in this directory.
    pub fn new(directory: RuntimeDir) -> Self {
        Registry { directory, protocol: PhantomData }
    }

    /// Takes a name for a service that is about to start, and clears away the socket of one that was killed.
    ///
    /// # Errors
    /// The name is impossible or taken, or no directory can be used.
    pub fn lock_name(&self, name: &str) -> Result<ClaimedName<P>, ControlError> {
        check_name(name)?;
        let claim = NameLock::new(&self.directory, &file_stem::<P>(name)).map_err(|error| match error {
            NameLockError::Taken { process, .. } => {
                ControlError::NameTaken { service: P::SERVICE, name: name.to_owned(), process }
            }
            error => error.into(),
        })?;
        let socket = socket_path::<P>(claim.directory(), name);
        lock_file::remove_if_exists(&socket);
        Ok(ClaimedName { name_lock: claim, socket, protocol: PhantomData })
    }

    /// Asks the service of that name.
    ///
    /// # Errors
    /// There is none, it is of another version, or it does not reply within its time.
    pub fn send_request(&self, name: &str, request: &P::Request) -> Result<P::Reply, ControlError> {
        check_name(name)?;
        for directory in self.directory.own_candidates() {
            let socket = socket_path::<P>(directory, name);
            match socket_file::connect(&socket) {
                Ok(stream) => return exchange_messages::<P>(&stream, &socket, request),
                Err(error) if is_not_listening(&error) => {}
                Err(cause) => return Err(ControlError::Io { socket, cause }),
            }
        }
        Err(ControlError::NotRunning {
            service: P::SERVICE,
            name: name.to_owned(),
            running: self.running_names(),
            foreign: self.directory.foreign_directory().map(Path::to_owned),
        })
    }

    /// The names of the services that run.
    pub fn running_names(&self) -> Vec<String> {
        let entries =
            self.directory.own_candidates().filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
        let named = entries.filter_map(|entry| {
            let path = entry.path();
            let name =
                path.file_name()?.to_str()?.strip_suffix(".sock")?.strip_prefix(P::SERVICE)?.strip_prefix('-')?;
            socket_file::connect(&path).is_ok().then(|| name.to_owned())
        });
        named.collect()
    }
}

impl<P: Protocol> ClaimedName<P> {
    /// Makes the socket, and replies to requests one after the other with what `handler` returns.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn serve(
        self,
        mut handler: impl FnMut(P::Request) -> P::Reply + Send + 'static,
    ) -> Result<ControlServer, ControlError> {
        let ClaimedName { name_lock: claim, socket, .. } = self;
        let failed = |cause| ControlError::Io { socket: socket.clone(), cause };
        let (file, listener) = SocketFile::bind(socket.clone()).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let serve = move |(stream, _): (UnixStream, _)| answer_request::<P>(&stream, &mut handler);
        let thread = ListenerThread::start("control", listener, UnixListener::accept, serve).map_err(failed)?;
        Ok(ControlServer { _thread: thread, socket: file, _name_lock: claim })
    }
}

impl ControlServer {
    /// Where the socket is.
    pub fn socket_path(&self) -> &Path {
        self.socket.path()
    }
}

fn file_stem<P: Protocol>(name: &str) -> String {
    format!("{}-{name}", P::SERVICE)
}

fn socket_path<P: Protocol>(directory: &Path, name: &str) -> PathBuf {
    directory.join(file_stem::<P>(name) + ".sock")
}

/// What a message begins with.
fn protocol_id<P: Protocol>() -> String {
    format!("{}-control/{}", P::SERVICE, P::VERSION)
}

fn is_not_listening(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Ends the sentence that a service doesn't run.
fn describe_alternatives(running: &[String], foreign: Option<&Path>) -> String {
    match (running, foreign) {
        ([], None) => String::new(),
        ([], Some(directory)) => format!("; those of {} are another user's", directory.display()),
        (running, _) => format!("; running: {}", running.join(", ")),
    }
}

fn answer_request<P: Protocol>(
    stream: &UnixStream,
    handler: &mut impl FnMut(P::Request) -> P::Reply,
) -> io::Result<()> {
    let stream = DeadlineStream::new(stream, MESSAGE_TIMEOUT)?;
    let line = read_message(stream.with_new_deadline(MESSAGE_TIMEOUT))?;
    let own = protocol_id::<P>();
    let answer = match line.split_once(' ') {
        Some((theirs, request)) if theirs == own => match serde_json::from_str(request) {
            Ok(request) => WireReply::Reply(handler(request)),
            Err(error) => WireReply::Error(format!("the request cannot be read: {error}")),
        },
        _ => WireReply::Error(format!("the request cannot be read: it is not of the protocol {own}")),
    };
    write_message(stream.with_new_deadline(MESSAGE_TIMEOUT), &own, &answer)
}

fn exchange_messages<P: Protocol>(
    stream: &UnixStream,
    socket: &Path,
    request: &P::Request,
) -> Result<P::Reply, ControlError> {
    let (service, expected) = (P::SERVICE, protocol_id::<P>());
    let exchange = || {
        let stream = DeadlineStream::new(stream, MESSAGE_TIMEOUT)?;
        write_message(stream.with_new_deadline(MESSAGE_TIMEOUT), &expected, request)?;
        read_message(stream.with_new_deadline(MESSAGE_TIMEOUT))
    };
    let failed = |cause| ControlError::Io { socket: socket.to_owned(), cause };
    let line = exchange().map_err(failed)?;
    match line.split_once(' ') {
        Some((found, answer)) if found == expected => {
            match serde_json::from_str(answer).map_err(|error| failed(error.into()))? {
                WireReply::Reply(reply) => Ok(reply),
                WireReply::Error(reason) => Err(ControlError::Refused { service, reason }),
            }
        }
        found => {
            // Another program's line may be anything.
            let found = found.map_or("something else", |(found, _)| found).chars().take(40).collect();
            Err(ControlError::VersionMismatch { service, found, expected })
        }
    }
}

fn write_message(mut stream: impl Write, protocol: &str, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(format!("{protocol} {}\n", serde_json::to_string(message)?).as_bytes())
}

/// One line, within bounds of length and time.
fn read_message(stream: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(MAX_MESSAGE_BYTES)).read_line(&mut line)?;
    if line.ends_with('\n') {
        return Ok(line);
    }
    let error = if line.is_empty() { "the peer sent nothing" } else { "the message is too long or incomplete" };
    Err(io::Error::new(io::ErrorKind::InvalidData, error))
}
