use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open file descriptors, whose usual soft limit of 1024 is too low for many idle connections, and
/// returns it.
pub fn raise_descriptor_limit() -> usize {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let wanted = hard.min(65_536).max(soft);
    let granted = match setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::debug!("cannot raise the limit of open file descriptors: {error}");
            soft
        }
    };
    usize::try_from(granted).unwrap_or(usize::MAX)
}
