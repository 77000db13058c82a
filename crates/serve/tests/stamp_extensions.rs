//! The optional extensions of STAMP (RFC 8972) between this sender and this reflector.

use crate::common::DEADLINE;
use crate::common::reflecting::{Reflecting, delay_to, quick};
use kumade_client::{DsField, Ecn, StampConfig};
use kumade_measurement::report::{
    ClassOfServiceCount, EcnCodepoint, ExtensionsReport, LocationReport, SynchronisationSource, TimestampMethod,
};
use kumade_net::datagram;
use kumade_serve::{HostClock, ReflectorConfig};
use kumade_units::Span;
use kumade_wire::PresharedKey;
use kumade_wire::stamp::{ErrorEstimate, PACKET_BYTES, Probe, TlvRequest};
use std::net::{SocketAddr, UdpSocket};
use std::thread::JoinHandle;

fn field(dscp: &str, ecn: Ecn) -> DsField {
    DsField::new(dscp.parse().unwrap(), ecn)
}

fn extensions_to(config: &StampConfig) -> ExtensionsReport {
    delay_to(config).extensions.unwrap()
}

/// Packets of one kind, sent and arrived so.
fn kept(packets: u32, dscp: u8, ecn: EcnCodepoint) -> Vec<ClassOfServiceCount> {
    vec![ClassOfServiceCount {
        packets,
        sent_dscp: Some(dscp),
        sent_ecn: Some(ecn),
        arrived_dscp: dscp,
        arrived_ecn: ecn,
    }]
}

#[test]
fn everything_is_asked_and_answered_by_ipv4_and_ipv6_with_and_without_a_key() {
    for (bind, ask, key) in [
        ("127.0.0.1", "127.0.0.1", None),
        ("::1", "::1", Some(1)),
        ("::", "127.0.0.3", Some(2)),
        ("127.0.0.1", "127.0.0.1", Some(3)),
    ] {
        let key = key.map(|byte| PresharedKey::from_bytes([byte; 32]));
        let reflector = Reflecting::with_key(bind, HostClock::System, key.clone());
        let address = SocketAddr::new(ask.parse().unwrap(), reflector.address.port());
        let ds_field = Some(field("ef", Ecn::Ect1));
        let found = extensions_to(&StampConfig { key, ds_field, extensions: true, size: 400, ..quick(address) });
        assert_eq!((&found.unanswered[..], found.not_authentic), (&[][..], 0));
        let class = found.class_of_service.unwrap();
        assert_eq!((&class.up, &class.down), (&kept(100, 46, EcnCodepoint::Ect1), &kept(100, 46, EcnCodepoint::Ect1)));
        assert_eq!(class.refused, 0);
        let LocationReport { source_address, source_port, destination_address, destination_port } =
            found.location.unwrap();
        let destination = (destination_address.unwrap(), destination_port.unwrap());
        assert_eq!(destination, (ask.to_owned(), address.port()));
        assert!(source_address.unwrap().parse::<std::net::IpAddr>().unwrap().is_loopback() && source_port.is_some());
        let counters = found.counters.unwrap();
        assert_eq!((counters.sent, counters.received, counters.answered), (99, 99, 99));
        let timestamps = found.timestamps.unwrap();
        assert_eq!(timestamps.method_in, Some(TimestampMethod::Software));
        assert!(timestamps.source_out.is_some());
        assert_eq!(found.reply_lateness_seconds, Some(0.0), "the stamp is the last that the reflector knows");
    }
}

#[test]
fn a_clock_that_nothing_sets_is_told() {
    let since = kumade_net::clock::realtime();
    let clock = HostClock::Simulated { offset: Span::ZERO, skew: 0.0, since, maximum_error: None };
    let reflector = Reflecting::start("127.0.0.1", clock);
    let found = extensions_to(&StampConfig { extensions: true, ..quick(reflector.address) });
    assert_eq!(found.timestamps.unwrap().source_in, Some(SynchronisationSource::Local));
}

#[test]
fn nothing_is_told_that_was_not_asked() {
    let reflector = Reflecting::start("127.0.0.1", HostClock::System);
    assert_eq!(delay_to(&quick(reflector.address)).extensions, None);
    let ds_field = Some(field("cs1", Ecn::NotEct));
    let found = extensions_to(&StampConfig { ds_field, ..quick(reflector.address) });
    assert!(found.class_of_service.is_some() && found.location.is_none() && found.unanswered.is_empty());
}

#[test]
fn a_reflector_withholds_addresses_if_it_is_to() {
    let config = ReflectorConfig { withholds_location: true, ..ReflectorConfig::default() };
    let reflector = Reflecting::with_config(config, "127.0.0.1");
    let found = extensions_to(&StampConfig { extensions: true, ..quick(reflector.address) });
    let nothing =
        LocationReport { source_address: None, source_port: None, destination_address: None, destination_port: None };
    assert_eq!((found.location, &found.unanswered[..]), (Some(nothing), &[][..]));
}

/// Network control stays where it is: RFC 8972, 4.4, has a policy decide.
#[test]
fn nobody_has_the_reflector_send_network_control_by_saying_so() {
    let reflector = Reflecting::start("127.0.0.1", HostClock::System);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagram::prepare_socket(&socket).unwrap();
    socket.connect(reflector.address).unwrap();
    for (sent, asked, expected) in [("0", "cs6", 0_u8), ("le", "cs7", 1), ("cs6", "cs6", 48), ("0", "ef", 46)] {
        datagram::set_ds_field(&socket, field(sent, Ecn::NotEct)).unwrap();
        let request = TlvRequest { class_of_service: Some(field(asked, Ecn::NotEct)), ..TlvRequest::default() };
        let mut probe = vec![0; request.probe_bytes(false)];
        let now = kumade_net::clock::realtime();
        let (sequence, error_estimate) = (expected.into(), ErrorEstimate::new(false, Span::ZERO));
        Probe { sequence, sent: now, error_estimate, session: 0 }.encode(probe.first_chunk_mut().unwrap());
        request.encode(&mut probe, 1, None);
        socket.send(&probe).unwrap();
        let end = kumade_net::clock::monotonic() + Span::from_secs(DEADLINE.as_secs() as i64);
        assert!(kumade_net::readiness::wait_readable(&socket, end).unwrap());
        let answer = datagram::receive(&socket, &mut [0; 200]).unwrap();
        assert_eq!((answer.len, answer.ds_field), (PACKET_BYTES + 8, Some(field(&expected.to_string(), Ecn::NotEct))));
    }
}

/// Bleaches what goes up, and marks what comes down.
fn start_relay(reflector: SocketAddr, packets: usize) -> (SocketAddr, JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagram::prepare_socket(&socket).unwrap();
    let address = socket.local_addr().unwrap();
    let relay = move || {
        let mut sender = None;
        let mut payload = [0; 2000];
        for _ in 0..2 * packets {
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            let (len, from) = socket.recv_from(&mut payload).unwrap();
            let is_answer = from == reflector;
            let (to, ds_field) = match is_answer {
                true => (sender.unwrap(), field("af11", Ecn::Ce)),
                false => (reflector, DsField::default()),
            };
            sender = if is_answer { sender } else { Some(from) };
            datagram::set_ds_field(&socket, ds_field).unwrap();
            socket.send_to(&payload[..len], to).unwrap();
        }
    };
    (address, std::thread::spawn(relay))
}

#[test]
fn what_the_path_changes_is_told_each_way() {
    let reflector = Reflecting::start("127.0.0.1", HostClock::System);
    let (address, relay) = start_relay(reflector.address, 100);
    let ds_field = Some(field("ef", Ecn::Ect0));
    let class = extensions_to(&StampConfig { ds_field, ..quick(address) }).class_of_service.unwrap();
    let sent = ClassOfServiceCount { ..kept(100, 46, EcnCodepoint::Ect0)[0] };
    let up = ClassOfServiceCount { arrived_dscp: 0, arrived_ecn: EcnCodepoint::NotEct, ..sent };
    let down = ClassOfServiceCount { arrived_dscp: 10, arrived_ecn: EcnCodepoint::Ce, ..sent };
    assert_eq!((class.up, class.down), (vec![up], vec![down]));
    relay.join().unwrap();
}
