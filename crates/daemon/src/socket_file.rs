use crate::lock_file;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// As the standard library has it.
const BACKLOG: i32 = 128;

/// The file of a listening socket, which only its user may connect to. Removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl SocketFile {
    /// Makes the file and listens.
    pub(crate) fn bind(path: PathBuf) -> io::Result<(Self, UnixListener)> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        with_short_path(&path, |path| socket.bind(&SockAddr::unix(path)?))?;
        // From here on the file goes with this, also where the rest fails.
        let file = SocketFile(path);
        socket.listen(BACKLOG)?;
        let listener = UnixListener::from(socket);
        fs::set_permissions(&file.0, fs::Permissions::from_mode(0o600))?;
        Ok((file, listener))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        lock_file::remove_if_exists(&self.0);
    }
}

/// Connects to the socket whose file is there.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, UnixStream::connect)
}

/// A socket's address holds 107 bytes of a path, and a directory's name may be longer than that: the path is given by way of
/// the opened directory.
fn with_short_path<T>(path: &Path, operation: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file in a directory");
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Err(invalid()) };
    let directory =
        OpenOptions::new().read(true).custom_flags(nix::libc::O_PATH | nix::libc::O_DIRECTORY).open(directory)?;
    operation(Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
}
