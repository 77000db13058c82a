//! Making a TUN device, and what to try where the system refuses.

use crate::interface;
use crate::setup::SetupError;
use std::fs::OpenOptions;
use std::io;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Makes a device of this name as `builder` has it, without packet information, switched on and non-blocking.
pub(super) fn open(name: &str, builder: DeviceBuilder) -> Result<SyncDevice, SetupError> {
    let failed = |error| SetupError::new(format!("make the TUN device {name}"), error);
    if !is_valid_name(name) {
        let hint = "the name of an interface is 1 to 15 letters, without `/`, `:`, `%` or blanks";
        return Err(failed(io::Error::from(io::ErrorKind::InvalidInput)).with_hint(hint));
    }
    let built = builder.name(name).packet_information(false).enable(true).build_sync();
    let device = built.map_err(|error| {
        let hint = hint(name, &error);
        failed(error).with_hint(hint)
    })?;
    set_nonblocking(name, &device)?;
    Ok(device)
}

pub(super) fn set_nonblocking(name: &str, device: &SyncDevice) -> Result<(), SetupError> {
    device.set_nonblocking(true).map_err(|error| SetupError::new(format!("set {name} non-blocking"), error))
}

fn hint(name: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "load the module: `modprobe tun`; in a container, pass --device /dev/net/tun",
        io::ErrorKind::PermissionDenied if !can_open() => {
            "/dev/net/tun is closed to you: run it as root, or open the device to all with `chmod 666 /dev/net/tun` \
             (most systems do so by themselves; it grants nothing by itself)"
        }
        io::ErrorKind::PermissionDenied => "it takes CAP_NET_ADMIN in this namespace",
        _ if interface::exists(name) => NAME_TAKEN,
        _ => "is IPv6 switched off on this system?",
    }
}

pub(super) const NAME_TAKEN: &str = "there is an interface of that name: give the device another one";

/// As dev_valid_name() of the kernel has it; and without `%`, in whose place the kernel puts a number.
fn is_valid_name(name: &str) -> bool {
    let is_odd = |byte: u8| matches!(byte, b'/' | b':' | b'%') || byte.is_ascii_whitespace();
    (1..libc::IFNAMSIZ).contains(&name.len()) && name != "." && name != ".." && !name.bytes().any(is_odd)
}

fn can_open() -> bool {
    OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_ok()
}
