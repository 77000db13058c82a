//! What the server tells a client of how its own packets arrived.

use crate::udp::to_canonical_address;
use kumade_net::tcp;
use kumade_wire::{TcpEnd, TcpPathView};
use std::io;
use std::net::{SocketAddr, TcpStream};

/// The SYN of a client's connection, which the kernel gives out once; empty where it was not kept.
pub(super) fn take_saved_syn(stream: &TcpStream) -> Vec<u8> {
    let syn = tcp::saved_syn(stream, TcpPathView::MAX_SYN_BYTES).unwrap_or_else(|error| {
        tracing::debug!("what the client's SYN looked like is not known: {error}");
        None
    });
    syn.unwrap_or_default()
}

/// What is seen of a client's connection, which it says it has made to `destination`.
pub(super) fn tcp_path_view(stream: &TcpStream, destination: SocketAddr, syn: &[u8]) -> io::Result<TcpPathView> {
    let info = tcp::path_info(stream)?;
    let local = to_canonical_address(stream.local_addr()?);
    let meant = to_canonical_address(destination);
    Ok(TcpPathView {
        client: to_canonical_address(stream.peer_addr()?),
        is_destination_kept: (local.ip(), local.port()) == (meant.ip(), meant.port()),
        syn: syn.to_vec(),
        endpoint: TcpEnd {
            options: info.options,
            announced_mss: info.announced_mss,
            send_mss: info.send_mss,
            path_mtu: info.path_mtu,
            hop_limit: info.hop_limit,
            delivered_ce: info.delivered_ce,
        },
    })
}
