use crate::netlink::{HEADER_BYTES, NetlinkSocket};
use crate::setup::SetupError;
use netlink_bindings::utils::push_header;
use nix::libc;
use nix::net::if_::if_nameindex;
use nix::sys::socket::SockProtocol;
use std::io;

/// The index of the interface of this name, its own or an alternative one, in the namespace that the calling thread is in. Netlink
/// knows all names, also long ones (`ip link property add … altname`); and a confined process may ask it, whatever C library it is
/// linked with: musl's `if_nametoindex` opens a local socket.
pub(crate) fn index_of(name: &str) -> Result<u32, SetupError> {
    find_index(name).map_err(|error| SetupError::new(format!("find the interface {name}"), error))
}

fn find_index(name: &str) -> io::Result<u32> {
    if name.len() >= ALTIFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // struct ifinfomsg, all of it unspecified.
    let mut body = vec![0; IFINFOMSG_BYTES];
    push_header(&mut body, libc::IFLA_ALT_IFNAME, (name.len() + 1) as u16);
    body.extend_from_slice(name.as_bytes());
    body.push(0);
    body.resize(body.len().next_multiple_of(4), 0);
    let answer = NetlinkSocket::open(SockProtocol::NetlinkRoute)?.query(libc::RTM_GETLINK, 0, &body)?;
    let index = answer.get(HEADER_BYTES + 4..).and_then(|rest| Some(u32::from_ne_bytes(*rest.first_chunk()?)));
    index.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The interface of this number, in the namespace that the calling thread is in.
pub(crate) fn name_of(index: u32) -> Option<String> {
    let interfaces = if_nameindex().ok()?;
    let found = interfaces.iter().find(|interface| interface.index() == index)?;
    Some(found.name().to_string_lossy().into_owned())
}

/// Of alternative names, with the octet that ends them.
const ALTIFNAMSIZ: usize = 128;
const IFINFOMSG_BYTES: usize = 16;
