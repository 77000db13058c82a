use nix::sys::stat;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Who measures at this host, as far as that can be known: nothing of a process of another PID namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostClaimHolder {
    process: Option<u32>,
    /// Who started it, where that is another user than this process's.
    user: Option<u32>,
    /// The program, and what it was told to do.
    command: Option<String>,
}

const NAMESPACE_PATH: &str = "/proc/thread-self/ns/net";
/// Of a command line, such as `kumade measure host`: its options may be long, and nobody else's business.
const MAX_COMMAND_WORDS: usize = 3;
const MAX_COMMAND_CHARS: usize = 80;

impl Display for HostClaimHolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(process) = self.process else { return f.write_str("a process of another PID namespace") };
        match &self.command {
            Some(command) => write!(f, "`{command}` (process {process}")?,
            None => write!(f, "a program (process {process}")?,
        }
        match self.user {
            Some(user) => write!(f, " of user {user})"),
            None => f.write_str(")"),
        }
    }
}

pub(super) fn open_host_file() -> io::Result<File> {
    File::open(NAMESPACE_PATH)
}

pub(super) fn find_holder(file: &File) -> io::Result<Option<HostClaimHolder>> {
    let metadata = file.metadata()?;
    let process = listed_owner(read_lock_list, metadata.dev(), metadata.ino())?;
    Ok(process.map(|process| {
        let directory = Path::new("/proc").join(process.to_string());
        let own_user = nix::unistd::geteuid().as_raw();
        HostClaimHolder {
            process: Some(process),
            user: fs::metadata(&directory).ok().map(|found| found.uid()).filter(|user| *user != own_user),
            command: fs::read(directory.join("cmdline")).ok().and_then(|line| describe_command(&line)),
        }
    }))
}

/// How often the list of locks is read where a lock is not found in it. The kernel gives as much of it as is asked for, a page at most,
/// and goes on by number: where a lock has gone meanwhile, it passes over another one.
const LOCK_LIST_READS: usize = 3;

/// The list, read page by page: without room for it, a few bytes would be asked for first.
fn read_lock_list() -> io::Result<String> {
    let mut list = String::with_capacity(1 << 14);
    File::open("/proc/locks")?.read_to_string(&mut list)?;
    Ok(list)
}

/// The process that has the file, by a list of locks that may miss some.
fn listed_owner(read: impl Fn() -> io::Result<String>, device: u64, inode: u64) -> io::Result<Option<u32>> {
    for _ in 0..LOCK_LIST_READS {
        let owner = lock_owner(&read()?, device, inode);
        if owner.is_some() {
            return Ok(owner);
        }
    }
    Ok(None)
}

/// The process that has the file, by the lines of /proc/locks (proc_locks(5)): `4: FLOCK  ADVISORY  WRITE 948 00:04:4026531833 0 EOF`.
fn lock_owner(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", stat::major(device), stat::minor(device));
    locks.lines().find_map(|line| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, "WRITE", process, place, ..] if place == file => process.parse().ok(),
        _ => None,
    })
}

/// The words of a command line up to its first option.
fn describe_command(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split('\0').filter(|word| !word.is_empty());
    let program = words.next()?;
    let program = program.rsplit('/').next().unwrap_or(program);
    let words = words.take_while(|word| !word.starts_with('-')).take(MAX_COMMAND_WORDS - 1);
    let text = std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ");
    Some(text.chars().map(|c| if c.is_control() { '?' } else { c }).take(MAX_COMMAND_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_claim::{HostClaim, HostClaimError};
    use crate::namespace::Namespace;
    use kumade_netns_testbed::in_namespaces;

    #[test]
    fn a_host_has_one_claim_which_names_its_holder_and_each_namespace_is_a_host() {
        in_namespaces(
            "host_claim::holder::tests::a_host_has_one_claim_which_names_its_holder_and_each_namespace_is_a_host",
            || {
                let [host, other] = [Namespace::new().unwrap(), Namespace::new().unwrap()];
                let own = std::process::id();
                let look = || HostClaim::current_holder().unwrap().and_then(|holder| holder.process);
                let claim = host.run(HostClaim::try_new).unwrap().unwrap();
                assert_eq!(host.run(look).unwrap(), Some(own));
                assert!(matches!(host.run(HostClaim::try_new).unwrap(), Err(HostClaimError::Held)));
                let holder = host.run(HostClaim::current_holder).unwrap().unwrap().unwrap();
                assert_eq!((holder.process, holder.user), (Some(own), None));
                assert!(holder.to_string().contains(&format!("(process {own})")), "{holder}");
                assert_eq!(other.run(look).unwrap(), None);
                drop(other.run(HostClaim::try_new).unwrap().unwrap());
                drop(claim);
                assert_eq!(host.run(look).unwrap(), None);
                host.run(HostClaim::try_new).unwrap().unwrap();
            },
        );
    }

    #[test]
    fn the_owner_is_found_among_other_locks() {
        let locks = "1: FLOCK  ADVISORY  WRITE 711 fe:00:4026531833 0 EOF\n\
            2: POSIX  ADVISORY  WRITE 7 00:04:4026531833 0 EOF\n\
            3: FLOCK  ADVISORY  READ 8 00:04:4026531833 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE 948 00:04:4026531833 0 EOF\n\
            4: -> FLOCK  ADVISORY  WRITE 949 00:04:4026531833 0 EOF\n";
        assert_eq!(lock_owner(locks, 4, 4026531833), Some(948));
        assert_eq!(lock_owner(locks, 4, 4026531834), None);
        assert_eq!(lock_owner("nonsense\n\n1: FLOCK", 4, 1), None);
    }

    #[test]
    fn a_list_that_misses_the_lock_is_read_again() {
        let reads = std::cell::Cell::new(0);
        let read = |listed_from: usize| {
            let reads = &reads;
            reads.set(0);
            move || {
                reads.set(reads.get() + 1);
                let lock = "4: FLOCK  ADVISORY  WRITE 948 00:04:7 0 EOF\n";
                Ok(if reads.get() >= listed_from { lock.to_owned() } else { String::new() })
            }
        };
        assert_eq!((listed_owner(read(1), 4, 7).unwrap(), reads.get()), (Some(948), 1));
        assert_eq!((listed_owner(read(LOCK_LIST_READS), 4, 7).unwrap(), reads.get()), (Some(948), LOCK_LIST_READS));
        assert_eq!((listed_owner(read(usize::MAX), 4, 7).unwrap(), reads.get()), (None, LOCK_LIST_READS));
    }

    #[test]
    fn a_command_is_shown_up_to_its_options_and_harmless() {
        for (line, shown) in [
            (&b"/usr/bin/kumade\0measure\0host\0--key\0file\0"[..], "kumade measure host"),
            (b"kumade\0monitor\0--config\0/etc/x.toml\0", "kumade monitor"),
            (b"a\x1b[2J\0b\0c\0d\0", "a?[2J b c"),
        ] {
            assert_eq!(describe_command(line).as_deref(), Some(shown));
        }
        assert_eq!(describe_command(b""), None);
        assert_eq!(describe_command(&[b'x'; 1000]).unwrap().len(), MAX_COMMAND_CHARS);
    }
}
