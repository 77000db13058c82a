use crate::setup::SetupError;
use nix::net::if_::if_nametoindex;

/// The index of the interface of this name in the namespace that the calling thread is in.
pub(crate) fn index_of(name: &str) -> Result<u32, SetupError> {
    if_nametoindex(name).map_err(|error| SetupError::new(format!("find the interface {name}"), error))
}
