use super::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::net::SocketAddr;

const WALL: Time = Time::from_nanos(1_800_000_000_000_000_000);

fn route() -> Route {
    Route { path: 0, address: SocketAddr::from(([192, 0, 2, 1], 7273)) }
}

fn endpoint(own: &PrivateKey, other: &PrivateKey) -> (Endpoint, PeerId) {
    let mut endpoint = Endpoint::new(own.clone(), HandshakePolicy::default(), Box::new(StdRng::seed_from_u64(80)));
    let peer = endpoint.add_peer(other.public_key(), PresharedKey::default()).unwrap();
    endpoint.set_routes(peer, vec![route()], Time::ZERO);
    (endpoint, peer)
}

/// The handshake message that it sends, and the same with another index of its sender.
fn sent(endpoint: &mut Endpoint, to: &PrivateKey) -> [Vec<u8>; 2] {
    let datagram = std::iter::from_fn(|| endpoint.next_event()).find_map(|event| match event {
        EndpointEvent::Transmit { datagram, .. } => Some(datagram),
        _ => None,
    });
    let message = datagram.expect("a message");
    let mut other = message.clone();
    other[4..8].copy_from_slice(&LONG_INDICES.to_le_bytes());
    MacKeys::for_receiver(&to.public_key()).write_macs(&mut other, None);
    [message, other]
}

/// Its bits would have stood in place of those that say the kind of the datagram.
#[test]
fn an_index_for_which_a_header_has_no_room_is_refused() {
    let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let (mut one, peer) = endpoint(&keys[0], &keys[1]);
    let (mut other, _) = endpoint(&keys[1], &keys[0]);
    one.connect(peer, Time::ZERO);
    one.advance(Time::ZERO, WALL);
    let [initiation, too_long] = sent(&mut one, &keys[1]);
    assert_eq!(other.receive(&too_long, route(), Time::ZERO), Err(RefusedDatagram::Forged));
    assert_eq!(other.receive(&initiation, route(), Time::ZERO), Ok(()));
    let [response, too_long] = sent(&mut other, &keys[0]);
    assert_eq!(one.receive(&too_long, route(), Time::ZERO), Err(RefusedDatagram::Forged));
    assert_eq!(one.receive(&response, route(), Time::ZERO), Ok(()));
}
