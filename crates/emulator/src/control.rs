//! The local socket over which a running bridge is asked and changed.
//!
//! Each bridge has a name, and a socket of that name in a directory that only its user may enter. A client sends one
//! line, a [`Request`] in JSON, and gets one, a [`Reply`]. Who holds the lock beside a socket is its owner: the lock of a
//! process that died is free, so that what it left behind hinders nobody.

mod owner;

use crate::listener_thread::ListenerThread;
use crate::settings::Change;
use owner::Owner;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// What a bridge may be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Change these settings.
    Set {
        /// Which, and of which direction.
        change: Change,
    },
    /// Say what is set and what has passed.
    Show,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Reply {
    /// The settings were changed.
    Done {
        /// The settings of both directions now.
        settings: [String; 2],
    },
    /// A document (`kumade.link/1`) with the totals.
    Shown {
        /// The document.
        document: serde_json::Value,
    },
    /// Nothing was changed.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Why a bridge cannot be reached, or cannot be made reachable.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The name would make no file name.
    #[error("`{0}` is no name for a link: give up to 64 letters, digits, `-` and `_`")]
    Name(String),
    /// Another process has it.
    #[error("a link called `{name}` runs already (process {process}): end it, or choose another --name")]
    Taken {
        /// Which name.
        name: String,
        /// Whose it is.
        process: String,
    },
    /// There is no place for the socket.
    #[error("cannot make the control socket in {directory}: {cause}; set XDG_RUNTIME_DIR to a directory of your own")]
    NoPlace {
        /// The last that was tried.
        directory: PathBuf,
        /// Why not there.
        cause: io::Error,
    },
    /// Nobody answers to the name.
    #[error("no link called `{name}` runs here{others}")]
    NotRunning {
        /// Which name.
        name: String,
        /// Who runs instead.
        others: String,
    },
    /// The conversation failed.
    #[error("cannot talk to the link by {socket}: {cause}")]
    Talk {
        /// Where it was tried.
        socket: PathBuf,
        /// What happened.
        cause: io::Error,
    },
}

/// Where sockets are, in order of preference.
#[derive(Debug, Clone)]
pub struct Place {
    directories: Vec<PathBuf>,
}

/// A name that nobody else can have, not answered yet.
#[derive(Debug)]
pub struct Claim(Owner);

/// A bridge's socket, answered by a thread until this is dropped.
#[derive(Debug)]
pub struct Control {
    // Ends before the socket's file goes.
    _thread: ListenerThread,
    owner: Owner,
}

/// No request or answer is longer.
const MAX_LINE_BYTES: u64 = 4 << 20;
/// How long the other end may take for its part of the conversation. Others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

impl Place {
    /// `$XDG_RUNTIME_DIR/kumade`, `/run/kumade`, or a directory of this user's below that for temporary files: the same
    /// within a user namespace and outside.
    pub fn standard() -> Self {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let user = outside(nix::unistd::geteuid().as_raw(), &map);
        let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        let temporary = std::env::temp_dir().join(format!("kumade-{user}"));
        let rest = [PathBuf::from("/run/kumade"), temporary];
        Place { directories: own.map(|own| Path::new(&own).join("kumade")).into_iter().chain(rest).collect() }
    }

    /// This directory alone.
    pub fn only(directory: impl Into<PathBuf>) -> Self {
        Place { directories: vec![directory.into()] }
    }

    /// Takes a name for a bridge that is about to start.
    ///
    /// # Errors
    /// The name makes no sense or is taken, or no directory can be used.
    pub fn claim(&self, name: &str) -> Result<Claim, ControlError> {
        check_name(name)?;
        Ok(Claim(Owner::new(&self.directory()?, name)?))
    }

    /// Asks the bridge of that name.
    ///
    /// # Errors
    /// There is none, or it does not answer.
    pub fn ask(&self, name: &str, request: &Request) -> Result<Reply, ControlError> {
        check_name(name)?;
        // Whoever else may have made a directory, he is not asked.
        for directory in self.directories.iter().filter(|directory| is_own(directory)) {
            let socket = owner::socket(directory, name);
            match UnixStream::connect(&socket) {
                Ok(stream) => {
                    return converse(&stream, request).map_err(|cause| ControlError::Talk { socket, cause });
                }
                Err(error) if is_nobody(&error) => {}
                Err(cause) => return Err(ControlError::Talk { socket, cause }),
            }
        }
        let names = self.names();
        let foreign = self.directories.iter().find(|directory| directory.exists() && !is_own(directory));
        let others = match (&names[..], foreign) {
            ([], None) => "; start one by `kumade link start`".to_owned(),
            ([], Some(directory)) => {
                format!("; start one by `kumade link start`, or ask as the user of {}", directory.display())
            }
            _ => format!("; there is {}: choose it by --name", names.join(", ")),
        };
        Err(ControlError::NotRunning { name: name.to_owned(), others })
    }

    /// The names of the bridges that run.
    fn names(&self) -> Vec<String> {
        let own = self.directories.iter().filter(|directory| is_own(directory));
        let entries = own.filter_map(|directory| fs::read_dir(directory).ok()).flatten().flatten();
        let sockets =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "sock"));
        let running = sockets.filter(|path| UnixStream::connect(path).is_ok());
        running.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
    }

    /// The first directory that can be used, made if need be.
    fn directory(&self) -> Result<PathBuf, ControlError> {
        let mut failed = None;
        for directory in &self.directories {
            match own_directory(directory) {
                Ok(()) => return Ok(directory.clone()),
                Err(cause) => failed = Some(ControlError::NoPlace { directory: directory.clone(), cause }),
            }
        }
        Err(failed.unwrap_or_else(|| ControlError::NoPlace {
            directory: PathBuf::new(),
            cause: io::ErrorKind::NotFound.into(),
        }))
    }
}

impl Claim {
    /// Makes the socket, and answers requests one after the other by `handler`.
    ///
    /// # Errors
    /// The system refuses a socket or a thread.
    pub fn serve(self, mut handler: impl FnMut(Request) -> Reply + Send + 'static) -> Result<Control, ControlError> {
        let Claim(owner) = self;
        let failed = |cause| ControlError::NoPlace { directory: owner.socket().to_owned(), cause };
        let listener = UnixListener::bind(owner.socket()).map_err(failed)?;
        fs::set_permissions(owner.socket(), fs::Permissions::from_mode(0o600)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let answer_next = move |(stream, _): (UnixStream, _)| answer(&stream, &mut handler);
        let thread = ListenerThread::start("control", listener, UnixListener::accept, answer_next).map_err(failed)?;
        Ok(Control { _thread: thread, owner })
    }
}

impl Control {
    /// Where the socket is.
    pub fn socket(&self) -> &Path {
        self.owner.socket()
    }
}

/// Says whether a bridge can be called this.
///
/// # Errors
/// It would make no file name.
pub fn check_name(name: &str) -> Result<(), ControlError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = (1..=64).contains(&name.len()) && name.chars().all(fits);
    if good { Ok(()) } else { Err(ControlError::Name(name.to_owned())) }
}

/// What a user is outside of this user namespace, by its map: user_namespaces(7).
fn outside(user: u32, map: &str) -> u32 {
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<u32>().ok());
    let found = map.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (inside, outside, count) = (number(words.next())?, number(words.next())?, number(words.next())?);
        let offset = user.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    });
    found.unwrap_or(user)
}

/// Makes the directory, or makes sure that it is this user's, for nobody else to enter.
fn own_directory(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    if !is_own(directory) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is no directory of this user's"));
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
}

fn is_own(directory: &Path) -> bool {
    fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw())
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn answer(stream: &UnixStream, handler: &mut impl FnMut(Request) -> Reply) -> io::Result<()> {
    let reply = match serde_json::from_str(&receive(stream)?) {
        Ok(request) => handler(request),
        Err(error) => Reply::Refused { reason: format!("the request cannot be read: {error}") },
    };
    send(stream, &reply)
}

fn converse(stream: &UnixStream, request: &Request) -> io::Result<Reply> {
    send(stream, request)?;
    Ok(serde_json::from_str(&receive(stream)?)?)
}

fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all((serde_json::to_string(message)? + "\n").as_bytes())
}

/// One line, within bounds of length and time.
fn receive(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    stream.set_read_timeout(Some(PATIENCE))?;
    BufReader::new(stream.take(MAX_LINE_BYTES)).read_line(&mut line)?;
    if line.ends_with('\n') {
        return Ok(line);
    }
    let error = if line.is_empty() { "the other end said nothing" } else { "the line is too long or has no end" };
    Err(io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_one_place_within_and_without_his_namespace() {
        let within = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!([0, 1, 7].map(|user| outside(user, within)), [1000, 100_000, 100_006]);
        for map in ["0 0 4294967295\n", "", "0 1", "-1 2 3"] {
            assert_eq!(outside(1000, map), 1000, "{map}");
        }
    }
}
