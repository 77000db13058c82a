//! Loads what the build script compiled; `Controller` names it.

use super::controller::Controller;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};
use libbpf_rs::{ErrorKind, MapCore, MapHandle, ObjectBuilder, PrintLevel};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;

const KERNEL_TYPES_PATH: &str = "/sys/kernel/btf/vmlinux";

/// A descriptor that keeps the controller registered.
pub fn hold(controller: Controller) -> io::Result<OwnedFd> {
    if let Some(shared) = share_registration(controller) {
        return Ok(shared);
    }
    match register(controller) {
        // Another process came first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => share_registration(controller).ok_or(error),
        registered => registered,
    }
}

/// The registration that another process holds: while this one holds it too, it stays.
fn share_registration(controller: Controller) -> Option<OwnedFd> {
    LinkInfoIter::default().find_map(|link| {
        let LinkTypeInfo::StructOps(registered) = link.info else { return None };
        let map = MapHandle::from_map_id(registered.map_id).ok()?;
        if map.name() == controller.name() { link_by_id(link.id) } else { None }
    })
}

fn register(controller: Controller) -> io::Result<OwnedFd> {
    libbpf_rs::set_print(Some((PrintLevel::Debug, |_, line| tracing::debug!("libbpf: {}", line.trim_end()))));
    let object = ObjectBuilder::default().open_memory(bpf_object(controller)).map_err(into_io)?;
    let mut object = object.load().map_err(into_io)?;
    // The variable that is registered is called like the controller.
    let mut map = object.maps_mut().find(|map| map.name() == controller.name()).ok_or(io::ErrorKind::InvalidData)?;
    let link = map.attach_struct_ops().map_err(into_io)?;
    link.as_fd().try_clone_to_owned()
}

fn bpf_object(controller: Controller) -> &'static [u8] {
    match controller {
        Controller::Bic => include_bytes!(concat!(env!("OUT_DIR"), "/bic.bpf.o")),
        Controller::Compound => include_bytes!(concat!(env!("OUT_DIR"), "/compound.bpf.o")),
        Controller::Dctcp => include_bytes!(concat!(env!("OUT_DIR"), "/dctcp.bpf.o")),
        Controller::Prague => include_bytes!(concat!(env!("OUT_DIR"), "/prague.bpf.o")),
        Controller::Vegas => include_bytes!(concat!(env!("OUT_DIR"), "/vegas.bpf.o")),
    }
}

/// `None` where its last holder has just let go of it.
fn link_by_id(id: u32) -> Option<OwnedFd> {
    // SAFETY: a system call that takes a number only.
    let fd = unsafe { libbpf_sys::bpf_link_get_fd_by_id(id) };
    // SAFETY: where not negative it is a new descriptor that nobody else has.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn into_io(error: libbpf_rs::Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    // In this form it shows its causes too.
    io::Error::new(kind, format!("{error:#}"))
}

/// What to try after [`hold`] has failed so.
pub fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if !Path::new(KERNEL_TYPES_PATH).exists() => "the kernel lacks its type information (CONFIG_DEBUG_INFO_BTF)",
        io::ErrorKind::PermissionDenied => {
            "run it as root outside of user namespaces, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"
        }
        io::ErrorKind::AlreadyExists => "another process has loaded it; sharing it takes CAP_SYS_ADMIN",
        _ => {
            "it takes Linux 6.4 or later with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT; RUST_LOG=debug shows what the \
             kernel says"
        }
    }
}
