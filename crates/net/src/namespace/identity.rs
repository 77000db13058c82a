use crate::option::{self, NamespaceCookie};
use crate::privileges::{self, SYS_ADMIN};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// A network namespace, as another process recognises it until the system restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceId {
    /// Another one may have it once this one is gone.
    inode: u64,
    /// No other one ever has it. None before Linux 5.14.
    cookie: Option<u64>,
    /// By which the kernel finds it. None before Linux 6.18, or where the system forbids it.
    handle: Option<Handle>,
    /// The inode of the user namespace that it belongs to, as far as the calling thread may know it.
    owner: Option<u64>,
}

/// Where a namespace is, seen from the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The thread is in it.
    Here,
    /// It is another one; as far as can be told, it is there.
    Elsewhere,
    /// It is certain that it is no more.
    Gone,
}

impl NamespaceId {
    /// That of the namespace which the calling thread is in.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn current() -> io::Result<Self> {
        let inode = current_inode()?;
        // Of a family that confined processes may use, too.
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        let handle = Handle::current().ok().filter(|handle| handle.open().is_ok());
        let owner = current_owner().ok();
        Ok(NamespaceId { inode, cookie: option::read(&socket, NamespaceCookie).ok(), handle, owner })
    }

    /// Where it is. Before Linux 5.14, one with the same inode is taken for it.
    pub fn presence(&self) -> Presence {
        let Ok(current) = Self::current() else { return Presence::Elsewhere };
        let has_same_inode = self.inode == current.inode;
        let is_same = match (self.cookie, current.cookie) {
            (Some(cookie), Some(current)) => cookie == current,
            _ => has_same_inode,
        };
        // Of two that are there, each has an inode of its own.
        match is_same {
            true => Presence::Here,
            false if has_same_inode || self.is_stale() => Presence::Gone,
            false => Presence::Elsewhere,
        }
    }

    /// Whether the calling thread can find out that it is gone: it takes the right to enter it.
    pub fn can_be_known_gone(&self) -> bool {
        self.handle.is_some() && self.may_be_entered()
    }

    /// The kernel gives the same answer (ESTALE) for what is no more and for what must not be entered.
    fn is_stale(&self) -> bool {
        self.may_be_entered() && self.handle.as_ref().is_some_and(Handle::is_stale)
    }

    /// What belongs to a user namespace that is no more, so that another one has its inode, is no more itself.
    fn may_be_entered(&self) -> bool {
        let own = fs::metadata(CURRENT_USER_PATH).map(|data| data.ino()).ok();
        privileges::has_capability(SYS_ADMIN)
            && own.is_some_and(|own| own == INITIAL_USER_INODE || self.owner == Some(own))
    }
}

/// The inode of the user namespace that the network namespace of the calling thread belongs to.
fn current_owner() -> io::Result<u64> {
    let file = File::open(CURRENT_PATH)?;
    // SAFETY: this request (ioctl_ns(2)) has no argument, and returns a descriptor.
    let fd = unsafe { libc::ioctl(file.as_raw_fd(), NS_GET_USERNS) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it, and nothing else has it.
    File::from(unsafe { OwnedFd::from_raw_fd(fd) }).metadata().map(|data| data.ino())
}

/// The inode of the network namespace that the calling thread is in.
pub(super) fn current_inode() -> io::Result<u64> {
    fs::metadata(CURRENT_PATH).map(|data| data.ino())
}

const CURRENT_PATH: &str = "/proc/thread-self/ns/net";
const CURRENT_USER_PATH: &str = "/proc/thread-self/ns/user";
/// PROC_USER_INIT_INO of the kernel. Who may administer that may enter all.
const INITIAL_USER_INODE: u64 = 0xEFFF_FFFD;
/// In linux/nsfs.h.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// A file handle of a namespace: name_to_handle_at(2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Handle {
    kind: i32,
    bytes: Vec<u8>,
}

/// The kernel's `struct file_handle` with all the bytes that there may be (MAX_HANDLE_SZ).
#[repr(C)]
struct RawHandle {
    length: u32,
    kind: i32,
    bytes: [u8; MAX_HANDLE_BYTES],
}

const MAX_HANDLE_BYTES: usize = 128;

impl Handle {
    fn current() -> io::Result<Self> {
        let file = File::open(CURRENT_PATH)?;
        let mut raw = RawHandle { length: MAX_HANDLE_BYTES as u32, kind: 0, bytes: [0; MAX_HANDLE_BYTES] };
        let mut mount: libc::c_int = 0;
        // SAFETY: the path ends with a zero; the kernel writes no more bytes than `length` says there are, and the mount's
        // number; both live until the call returns.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_raw_fd(),
                c"".as_ptr(),
                &raw mut raw,
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if outcome < 0 {
            return Err(io::Error::last_os_error());
        }
        let bytes = raw.bytes.get(..raw.length as usize).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Handle { kind: raw.kind, bytes: bytes.to_vec() })
    }

    /// Opens the namespace.
    fn open(&self) -> io::Result<OwnedFd> {
        let mut raw = RawHandle { length: self.bytes.len() as u32, kind: self.kind, bytes: [0; MAX_HANDLE_BYTES] };
        raw.bytes.get_mut(..self.bytes.len()).ok_or(io::ErrorKind::InvalidData)?.copy_from_slice(&self.bytes);
        // Any file of that file system stands for it.
        let file = File::open(CURRENT_PATH)?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: the handle has as many bytes as `length` says, and lives until the call returns.
        let fd = unsafe { libc::syscall(libc::SYS_open_by_handle_at, file.as_raw_fd(), &raw mut raw, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just opened it, and nothing else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Whether the kernel finds nothing by this handle, or nothing that the calling thread may enter.
    fn is_stale(&self) -> bool {
        self.open().is_err_and(|error| error.raw_os_error() == Some(libc::ESTALE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use kumade_netns_testbed::{eventually, in_namespaces};

    #[test]
    fn a_namespace_is_told_from_any_other_and_known_to_be_gone() {
        in_namespaces("namespace::identity::tests::a_namespace_is_told_from_any_other_and_known_to_be_gone", || {
            let namespace = Namespace::new().unwrap();
            let inside = namespace.run(|| NamespaceId::current().unwrap()).unwrap();
            let read: NamespaceId = serde_json::from_str(&serde_json::to_string(&inside).unwrap()).unwrap();
            assert_eq!(read, inside);
            assert_eq!(namespace.run(|| inside.presence()).unwrap(), Presence::Here);
            assert_eq!(inside.presence(), Presence::Elsewhere);
            drop(namespace);
            // The kernel takes namespaces down later.
            let is_gone = || inside.presence() == Presence::Gone;
            assert!(!inside.can_be_known_gone() || eventually(is_gone));
        });
    }

    /// A gateway that had given up its capabilities once took each namespace that was not its own for gone.
    #[test]
    fn who_must_not_enter_a_namespace_does_not_take_it_for_gone() {
        in_namespaces("namespace::identity::tests::who_must_not_enter_a_namespace_does_not_take_it_for_gone", || {
            let (namespace, other) = (Namespace::new().unwrap(), Namespace::new().unwrap());
            let inside = namespace.run(|| NamespaceId::current().unwrap()).unwrap();
            let confined = other.run(|| {
                let before = inside.presence();
                privileges::drop_capabilities_except(&[privileges::NET_ADMIN]).unwrap();
                (before, inside.presence(), inside.can_be_known_gone())
            });
            assert_eq!(confined.unwrap(), (Presence::Elsewhere, Presence::Elsewhere, false));
            // Nor does it where it may administer another user namespace.
            let foreign = NamespaceId { owner: Some(inside.inode), ..inside.clone() };
            let is_initial = fs::metadata(CURRENT_USER_PATH).unwrap().ino() == INITIAL_USER_INODE;
            assert_eq!(foreign.can_be_known_gone(), is_initial && inside.handle.is_some());
        });
    }

    #[test]
    fn one_that_has_the_inode_of_another_is_not_taken_for_it() {
        let current = NamespaceId::current().unwrap();
        assert_eq!(current.presence(), Presence::Here);
        let Some(cookie) = current.cookie else { return println!("this kernel numbers no namespaces") };
        let former = NamespaceId { cookie: Some(cookie + 1), handle: None, ..current.clone() };
        assert_eq!(former.presence(), Presence::Gone);
        let other = NamespaceId { inode: current.inode + 1, ..former };
        assert_eq!(other.presence(), Presence::Elsewhere);
        // What was written where the system tells less is found by what it has.
        let known_by_inode = NamespaceId { cookie: None, handle: None, ..current };
        assert_eq!(known_by_inode.presence(), Presence::Here);
    }

    #[test]
    fn a_handle_that_is_none_finds_nothing() {
        for length in [0, 1, 16, MAX_HANDLE_BYTES, MAX_HANDLE_BYTES + 1, 1 << 20] {
            assert!(Handle { kind: 0xf1, bytes: vec![0xff; length] }.open().is_err(), "{length}");
        }
    }
}
