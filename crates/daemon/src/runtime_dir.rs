use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Where the sockets and lock files of a user's services are: directories in order of preference.
#[derive(Debug, Clone)]
pub struct RuntimeDir {
    candidates: Vec<PathBuf>,
    /// Those that the next start finds again, in order of preference.
    persistent_candidates: Vec<PathBuf>,
}

/// No directory can be used.
#[derive(Debug, Error)]
#[error("cannot use the runtime directory {}: {cause}; set XDG_RUNTIME_DIR to a directory of your own", directory.display())]
pub struct NoRuntimeDir {
    /// The last that was tried.
    pub directory: PathBuf,
    /// Why it cannot be used.
    pub cause: io::Error,
}

impl RuntimeDir {
    /// `$XDG_RUNTIME_DIR/NAME`, `/run/NAME`, or a directory of this user's below that for temporary files: the same inside a
    /// user namespace and outside. What must be found again under another environment is in `/run/NAME` and the like, and where
    /// systemd runs the service, in the unit's `$RUNTIME_DIRECTORY/NAME` (systemd.exec(5)): its `/tmp` may be private, and end
    /// with it.
    pub fn standard(name: &str) -> Self {
        Self::from_environment(name, |variable| std::env::var_os(variable).filter(|path| !path.is_empty()))
    }

    fn from_environment(name: &str, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let user = user_outside_namespace(nix::unistd::geteuid().as_raw(), &map);
        let below = |directory: OsString| Path::new(&directory).join(name);
        let fixed = [format!("/run/{name}"), format!("/run/user/{user}/{name}"), format!("/tmp/{name}-{user}")];
        let rest = [Path::new("/run").join(name), std::env::temp_dir().join(format!("{name}-{user}"))];
        RuntimeDir {
            candidates: variable("XDG_RUNTIME_DIR").map(below).into_iter().chain(rest).collect(),
            persistent_candidates: variable("RUNTIME_DIRECTORY")
                .map(below)
                .into_iter()
                .chain(fixed.map(PathBuf::from))
                .collect(),
        }
    }

    /// This directory alone.
    pub fn from_path(directory: impl Into<PathBuf>) -> Self {
        let candidates = vec![directory.into()];
        RuntimeDir { persistent_candidates: candidates.clone(), candidates }
    }

    /// Creates what services may need later, and returns all that exist and are this user's: where a service that is confined
    /// has to write.
    pub fn create_writable(&self) -> Vec<PathBuf> {
        // Who needs one that cannot be had says so.
        let _ = (self.create(), self.create_persistent());
        self.own_candidates().map(Path::to_owned).collect()
    }

    /// The first directory that can be used; it is created where it is missing.
    pub(crate) fn create(&self) -> Result<PathBuf, NoRuntimeDir> {
        create_first_usable(self.candidates.iter())
    }

    /// The same for what must be found again under another environment.
    pub(crate) fn create_persistent(&self) -> Result<PathBuf, NoRuntimeDir> {
        create_first_usable(self.persistent_candidates.iter().chain(&self.candidates))
    }

    /// All that exist and are this user's. Directories of other users are not trusted.
    pub(crate) fn own_candidates(&self) -> impl Iterator<Item = &Path> {
        let others = self.persistent_candidates.iter().filter(|directory| !self.candidates.contains(directory));
        self.candidates.iter().chain(others).map(PathBuf::as_path).filter(|directory| is_owned_by_user(directory))
    }

    /// One that exists and is another user's.
    pub(crate) fn foreign_directory(&self) -> Option<&Path> {
        self.candidates
            .iter()
            .map(PathBuf::as_path)
            .find(|directory| directory.exists() && !is_owned_by_user(directory))
    }
}

fn create_first_usable<'d>(candidates: impl Iterator<Item = &'d PathBuf>) -> Result<PathBuf, NoRuntimeDir> {
    let mut refusal = NoRuntimeDir { directory: PathBuf::new(), cause: io::ErrorKind::NotFound.into() };
    for directory in candidates {
        match create_own(directory) {
            Ok(()) => return Ok(directory.clone()),
            Err(cause) => refusal = NoRuntimeDir { directory: directory.clone(), cause },
        }
    }
    Err(refusal)
}

/// Creates the directory, or makes sure that it is this user's; nobody else may enter it then.
fn create_own(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    if !is_owned_by_user(directory) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a directory of this user"));
    }
    // A service that is confined can't set them, nor need it.
    let permissions = fs::Permissions::from_mode(0o700);
    let has_others = fs::metadata(directory)?.permissions().mode() & 0o7777 != permissions.mode();
    if has_others { fs::set_permissions(directory, permissions) } else { Ok(()) }
}

/// One that all users share, as `/tmp`, is not root's own although it belongs to root: nobody else could enter it any more.
fn is_owned_by_user(directory: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    fs::symlink_metadata(directory).is_ok_and(|found| {
        found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw() && found.mode() & STICKY == 0
    })
}

/// The user's number outside of this user namespace, by the namespace's map: user_namespaces(7).
fn user_outside_namespace(user: u32, map: &str) -> u32 {
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<u32>().ok());
    let found = map.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (inside, outside, count) = (number(words.next())?, number(words.next())?, number(words.next())?);
        let offset = user.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    });
    found.unwrap_or(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_finds_its_record_again_in_its_own_directory() {
        let unit = std::env::temp_dir().join(format!("kumade-unit-{}", std::process::id()));
        fs::create_dir_all(&unit).unwrap();
        let in_unit = |variable: &str| (variable == "RUNTIME_DIRECTORY").then(|| unit.clone().into_os_string());
        let record = RuntimeDir::from_environment("kumade", in_unit).create_persistent().unwrap();
        assert_eq!(record, unit.join("kumade"));
        assert!(RuntimeDir::from_environment("kumade", in_unit).own_candidates().any(|directory| directory == record));
        fs::remove_dir_all(&unit).unwrap();
    }

    #[test]
    fn a_directory_that_all_users_share_is_not_taken_from_them() {
        let shared = std::env::temp_dir().join(format!("kumade-shared-{}", std::process::id()));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(RuntimeDir::from_path(&shared).create().is_err());
        assert_eq!(fs::metadata(&shared).unwrap().mode() & 0o7777, 0o1777);
        fs::remove_dir(&shared).unwrap();
    }

    #[test]
    fn a_user_has_the_same_directory_inside_and_outside_of_a_user_namespace() {
        let within = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!([0, 1, 7].map(|user| user_outside_namespace(user, within)), [1000, 100_000, 100_006]);
        for map in ["0 0 4294967295\n", "", "0 1", "-1 2 3"] {
            assert_eq!(user_outside_namespace(1000, map), 1000, "{map}");
        }
    }
}
