use super::*;
use crate::reject;
use crate::samples::{self, Sample, SampleKind, V4, V6};
use proptest::prelude::*;

#[test]
fn udp_without_a_checksum_stays_without() {
    let mut packet = Sample::new(V4, SampleKind::Udp, b"x").packet();
    packet[26..28].fill(0);
    rewrite(&mut packet, End::Source, "203.0.113.9:1234".parse().unwrap()).unwrap();
    assert_eq!(packet[26..28], [0, 0]);
    assert!(checksum::is_valid(&packet).unwrap());
}

#[test]
fn udp_whose_checksum_becomes_zero_sends_all_ones() {
    let mut packet = Sample::new(V4, SampleKind::Udp, b"").packet();
    // The port that takes up all of the checksum, so that the new one is zero.
    let checksum = u16::from_be_bytes([packet[26], packet[27]]);
    let port = (u32::from(checksum) + 40000) % 0xffff;
    rewrite(&mut packet, End::Source, format!("192.0.2.1:{port}").parse().unwrap()).unwrap();
    assert_eq!(packet[26..28], [0xff, 0xff]);
    assert!(checksum::is_valid(&packet).unwrap());
}

#[test]
fn the_other_version_is_refused_and_nothing_changes() {
    let mut packet = Sample::new(V6, SampleKind::Udp, b"x").packet();
    let before = packet.clone();
    let error = rewrite(&mut packet, End::Destination, "203.0.113.9:1".parse().unwrap()).unwrap_err();
    assert!(matches!(error, RewriteError::Version(_)) && packet == before);
}

#[test]
fn a_quoted_packet_is_rewritten_as_far_as_it_goes() {
    for ends in [V4, V6] {
        let packet = Sample::new(ends, SampleKind::Udp, &[1; 1400]).packet();
        let error = reject(&packet).unwrap();
        let start = Headers::parse(&error).unwrap().transport_offset + 8;
        for length in [error.len() - start, Headers::parse(&packet).unwrap().transport_offset + 8] {
            let mut quote = error[start..start + length].to_vec();
            let to: SocketAddr = if ends == V4 { "203.0.113.9:99" } else { "[2001:db8::9]:99" }.parse().unwrap();
            rewrite(&mut quote, End::Source, to).unwrap();
            let mut whole = packet.clone();
            rewrite(&mut whole, End::Source, to).unwrap();
            assert!(whole.starts_with(&quote));
        }
    }
}

#[test]
fn an_error_about_a_packet_is_led_back_to_its_flow() {
    for (ends, payload) in [(V4, 33), (V6, 33), (V4, 0), (V6, 1400)] {
        let sample = Sample::new(ends, SampleKind::Udp, &vec![5; payload]);
        let to: SocketAddr = if ends == V4 { "203.0.113.9:99" } else { "[2001:db8::9]:99" }.parse().unwrap();
        let mut error = reject(&sample.packet()).unwrap();
        let flow = quoted_flow(&error).unwrap();
        assert_eq!((flow.source, flow.destination), (sample.source, sample.destination));
        rewrite_quoted(&mut error, End::Source, to).unwrap();
        assert!(checksum::is_valid(&error).unwrap());
        assert_eq!(quoted_flow(&error).unwrap().source, to);
        let quote = quote_range(&error).unwrap().start;
        assert_eq!(error[quote - 4..quote], [0; 4], "of the error's own header only the checksum changes");
    }
    assert_eq!(quoted_flow(&Sample::new(V4, SampleKind::Echo, b"no error").packet()), None);
}

proptest! {
    #[test]
    fn a_round_trip_restores_the_packet_and_each_step_is_valid(
        ((packet, sample), to) in samples::any_packet().prop_flat_map(|made| {
            let v4 = made.1.source.is_ipv4();
            (Just(made), samples::any_end(v4))
        }),
        at_source: bool
    ) {
        let (end, original) = if at_source { (End::Source, sample.source) } else { (End::Destination, sample.destination) };
        let mut changed = packet.clone();
        rewrite(&mut changed, end, to).unwrap();
        prop_assert!(checksum::is_valid(&changed).unwrap());
        let headers = Headers::parse(&changed).unwrap();
        prop_assert_eq!(if at_source { headers.source } else { headers.destination }, to.ip());
        if let Some((source_port, destination_port)) = headers.ports() {
            prop_assert_eq!(if at_source { source_port } else { destination_port }, to.port());
        }
        rewrite(&mut changed, end, original).unwrap();
        prop_assert_eq!(changed, packet);
    }
}
