//! In the place of the loader, in a build without the feature `bpf`.

use super::controller::Controller;
use std::io;
use std::os::fd::OwnedFd;

pub fn hold(_: Controller) -> io::Result<OwnedFd> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this program was built without the feature `bpf`"))
}

pub fn hint(_: &io::Error) -> &'static str {
    "build it with `--features bpf`, which takes clang"
}
