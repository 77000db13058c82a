use super::*;
use kumade_packet::offload::{PARTIAL_CHECKSUM, Segments};

const JOINS: Joining = Joining { may_join: true, has_partial_checksum: false };

/// What the kernel would hand to a receiver of single packets: each group, segmented again by what its header says.
fn delivered(coalescer: &Coalescer, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for group in coalescer.groups() {
        let (header, beginning) = group.headers().split_first_chunk().unwrap();
        let offload = Offload::read(*header);
        let mut frame = beginning.to_vec();
        for index in coalescer.members(group) {
            frame.extend(&packets[index][group.skipped_bytes()..]);
        }
        let Some(segment_bytes) = offload.segment_bytes else {
            if let Some(partial) = offload.checksum {
                partial.complete(&mut frame).unwrap();
            }
            all.push(frame);
            continue;
        };
        let partial = offload.checksum.unwrap();
        let mut whole = frame.clone();
        partial.complete(&mut whole).unwrap();
        assert!(checksum::is_valid(&whole).unwrap(), "the pseudo header's sum is right, and so is the IP header's");
        let mut segments = Segments::from_frame(&frame, 0, segment_bytes, Some(partial.start.into())).unwrap();
        let mut out = Vec::new();
        while segments.write_next(&mut out) {
            all.push(out.clone());
        }
    }
    all
}

fn planned(packets: &[Vec<u8>]) -> (Coalescer, Vec<usize>) {
    let mut coalescer = Coalescer::new(true, 0);
    coalescer.group_packets(packets, |_| JOINS);
    let sizes = coalescer.groups().map(|group| group.count).collect();
    (coalescer, sizes)
}

fn sizes(packets: &[Vec<u8>]) -> Vec<usize> {
    planned(packets).1
}

#[derive(Clone, Copy)]
struct Flow {
    is_v4: bool,
    protocol: u8,
    port: u16,
}

const TCP_V4: Flow = Flow { is_v4: true, protocol: protocol::TCP, port: 1 };
const FLOWS: [Flow; 4] = [
    TCP_V4,
    Flow { is_v4: false, protocol: protocol::TCP, port: 1 },
    Flow { is_v4: true, protocol: protocol::UDP, port: 1 },
    Flow { is_v4: false, protocol: protocol::UDP, port: 1 },
];
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

impl Flow {
    /// A packet with valid checksums. Sequence and identification are of this number of packets of 100 bytes before.
    fn packet(self, number: usize, payload: usize, flags: u8) -> Vec<u8> {
        let mut transport = vec![0; if self.protocol == protocol::TCP { 32 } else { 8 }];
        transport[..2].copy_from_slice(&self.port.to_be_bytes());
        if self.protocol == protocol::TCP {
            transport[4..8].copy_from_slice(&(u32::MAX - 150).wrapping_add(number as u32 * 100).to_be_bytes());
            (transport[12], transport[13]) = (0x80, flags);
            transport[20..].copy_from_slice(&[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        } else {
            transport[4..6].copy_from_slice(&(8 + payload as u16).to_be_bytes());
        }
        transport.extend((0..payload).map(|byte| (byte * 7 + number) as u8));
        let len = transport.len() as u16;
        let mut packet = if self.is_v4 { vec![0; 20] } else { vec![0; 40] };
        if self.is_v4 {
            packet[2..4].copy_from_slice(&(20 + len).to_be_bytes());
            packet[4..6].copy_from_slice(&(65534 + number as u32).to_be_bytes()[2..]);
            (packet[0], packet[8], packet[9], packet[12], packet[19]) = (0x45, 64, self.protocol, 10, 2);
        } else {
            packet[4..6].copy_from_slice(&len.to_be_bytes());
            (packet[0], packet[6], packet[7], packet[8], packet[39]) = (0x60, self.protocol, 64, 0xfd, 2);
        }
        packet.extend(transport);
        checksum::set(&mut packet).unwrap();
        packet
    }

    fn data(self, number: usize) -> Vec<u8> {
        self.packet(number, 100, ACK)
    }
}

fn changed(mut packet: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    packet[at] = value;
    checksum::set(&mut packet).unwrap();
    packet
}

#[test]
fn segments_of_a_flow_become_one_packet_and_are_themselves_again_when_segmented() {
    for flow in FLOWS {
        let mut packets: Vec<_> = (0..5).map(|number| flow.data(number)).collect();
        packets.push(flow.packet(5, 40, ACK | PSH));
        packets.push(flow.packet(6, 40, ACK));
        let (coalescer, sizes) = planned(&packets);
        assert_eq!(sizes, [6, 1], "a shorter one is the last");
        assert_eq!(delivered(&coalescer, &packets), packets);
    }
}

#[test]
fn flows_that_alternate_are_merged_each_by_itself() {
    let flows = FLOWS.into_iter().chain(FLOWS.map(|flow| Flow { port: 2, ..flow }));
    let packets: Vec<_> = (0..3).flat_map(|number| flows.clone().map(move |flow| flow.data(number))).collect();
    let (coalescer, sizes) = planned(&packets);
    assert_eq!(sizes, [3; 8]);
    assert_eq!(delivered(&coalescer, &packets).len(), packets.len());
}

#[test]
fn a_group_is_bounded() {
    let small: Vec<_> = (0..100).map(|number| TCP_V4.data(number)).collect();
    assert_eq!(sizes(&small), [64, 36]);
    let large: Vec<_> = (0..20).map(|_| FLOWS[3].packet(0, 9000, 0)).collect();
    assert_eq!(sizes(&large), [7, 7, 6]);
}

#[test]
fn what_differs_stays_apart_and_in_order() {
    let first = TCP_V4.data(0);
    let alone = |second: Vec<u8>| {
        // A third one, which would continue the first, must not overtake the second.
        let packets = [first.clone(), second, TCP_V4.data(1)];
        let (coalescer, sizes) = planned(&packets);
        assert_eq!(sizes[0], 1);
        assert_eq!(delivered(&coalescer, &packets), packets);
    };
    let next = TCP_V4.data(1);
    alone(TCP_V4.data(2));
    alone(TCP_V4.packet(1, 101, ACK));
    alone(TCP_V4.packet(1, 0, ACK));
    for flags in [0, ACK | 0x02, ACK | 0x04, ACK | 0x20, ACK | 0x40, ACK | 0x80] {
        alone(TCP_V4.packet(1, 100, flags));
    }
    // Traffic class, identification, don't fragment, TTL, acknowledgment, AE flag, window, urgent pointer, an option.
    for (at, value) in [(1, 1), (5, 7), (6, 0x40), (8, 63), (31, 1), (32, 0x81), (35, 1), (39, 1), (45, 9)] {
        alone(changed(next.clone(), at, value));
    }
    // Fragments, IP options, another protocol, padding.
    for (at, value) in [(6, 0x20), (7, 1), (9, 132)] {
        alone(changed(next.clone(), at, value));
    }
    alone([&next[..], &[0]].concat());
    alone([0x46].into_iter().chain(next[1..].iter().copied()).collect());
}

#[test]
fn corrupt_packets_stay_corrupt() {
    for flow in FLOWS {
        for wrong in 0..3 {
            let mut packets: Vec<_> = (0..3).map(|number| flow.data(number)).collect();
            *packets[wrong].last_mut().unwrap() ^= 1;
            let (coalescer, sizes) = planned(&packets);
            assert_eq!(sizes, [&[1, 2][..], &[1, 1, 1], &[2, 1]][wrong]);
            assert_eq!(delivered(&coalescer, &packets), packets);
        }
    }
}

#[test]
fn datagrams_without_checksum_and_those_of_kernels_without_segmentation_stay_apart() {
    let without: Vec<_> = (0..3)
        .map(|number| {
            let mut packet = FLOWS[2].data(number);
            packet[26..28].fill(0);
            packet
        })
        .collect();
    assert_eq!(sizes(&without), [1; 3]);
    let mut older = Coalescer::new(false, 0);
    older.group_packets(&[0, 1].map(|number| FLOWS[2].data(number)), |_| JOINS);
    assert_eq!(older.groups().count(), 2);
}

#[test]
fn packets_join_none_from_before_one_that_may_not() {
    let packets = [0, 1, 2, 3, 4].map(|number| TCP_V4.data(number));
    let mut coalescer = Coalescer::new(true, 0);
    coalescer.group_packets(&packets, |index| Joining { may_join: index != 2, ..JOINS });
    let groups: Vec<_> = coalescer.groups().map(|group| (group.first(), group.count)).collect();
    assert_eq!(groups, [(0, 2), (2, 3)]);
}

/// Offsets count from the frame's beginning.
#[test]
fn a_link_header_moves_the_offsets() {
    let packets = [0, 1].map(|number| TCP_V4.data(number));
    let header = |link_header_bytes| {
        let mut coalescer = Coalescer::new(true, link_header_bytes);
        coalescer.group_packets(&packets, |_| JOINS);
        let header = *coalescer.groups().next().unwrap().headers().first_chunk::<{ Offload::HEADER_BYTES }>().unwrap();
        (Offload::read(header), u16::from_ne_bytes([header[2], header[3]]))
    };
    let ((plain, headers), (framed, longer)) = (header(0), header(14));
    assert_eq!((framed.checksum.unwrap().start, longer), (plain.checksum.unwrap().start + 14, headers + 14));
    assert_eq!((framed.segment_bytes, framed.checksum.unwrap().offset), (plain.segment_bytes, 16));
}

mod property {
    use super::*;
    use proptest::prelude::*;

    /// Flows that alternate at random, whose packets mostly continue each other.
    fn any_batch() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let packet = (0..8_usize, 0..30_u8, prop_oneof![8 => Just(100_usize), 1 => 0..200_usize]);
        prop::collection::vec(packet, 0..150).prop_map(|choices| {
            let mut numbers = [0; 8];
            let mut packet = |(flow, oddity, payload): (usize, u8, usize)| {
                let (number, port) = (&mut numbers[flow], flow as u16 / 4);
                *number += if oddity == 0 { 2 } else { 1 };
                let flow = Flow { port, ..FLOWS[flow % 4] };
                let flags = if oddity == 1 { ACK | PSH } else { ACK };
                let mut packet = flow.packet(*number, payload, flags);
                match oddity {
                    2 => *packet.last_mut().unwrap() ^= 1,
                    3 => packet.truncate(30),
                    _ => {}
                }
                packet
            };
            choices.into_iter().map(&mut packet).collect()
        })
    }

    fn of_flow(packets: &[Vec<u8>], flow: &MergeProfile) -> Vec<Vec<u8>> {
        let is_of_flow =
            |packet: &&Vec<u8>| MergeProfile::from_packet(packet).is_some_and(|shape| shape.is_same_flow(flow));
        packets.iter().filter(is_of_flow).cloned().collect()
    }

    proptest! {
        #[test]
        fn every_flow_is_delivered_as_it_came(packets in any_batch()) {
            let (coalescer, sizes) = planned(&packets);
            prop_assert_eq!(sizes.iter().sum::<usize>(), packets.len());
            let delivered = delivered(&coalescer, &packets);
            for shape in packets.iter().filter_map(|packet| MergeProfile::from_packet(packet)) {
                prop_assert_eq!(of_flow(&delivered, &shape), of_flow(&packets, &shape));
            }
        }

        #[test]
        fn any_bytes_are_survived(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..20)) {
            let (coalescer, _) = planned(&packets);
            prop_assert_eq!(delivered(&coalescer, &packets), packets);
        }
    }
}

/// What leaves a gateway without its checksum, which the host's stack or network card computes.
#[test]
fn packets_with_partial_checksums_come_out_with_valid_ones_however_many_are_merged() {
    for flow in FLOWS {
        for count in 1..4_usize {
            let whole: Vec<_> = (0..count).map(|number| flow.data(number)).collect();
            let mut packets = whole.clone();
            for packet in &mut packets {
                let field = if flow.protocol == protocol::TCP { 16 } else { 6 };
                let transport = if flow.is_v4 { 20 } else { 40 };
                packet[transport + field..][..2].copy_from_slice(&PARTIAL_CHECKSUM);
            }
            let mut coalescer = Coalescer::new(true, 0);
            coalescer.group_packets(&packets, |_| Joining { has_partial_checksum: true, ..JOINS });
            assert_eq!(coalescer.groups().map(|group| group.count).collect::<Vec<_>>(), [count]);
            assert_eq!(delivered(&coalescer, &packets), whole);
            // Without being told, they are taken for corrupt.
            assert_eq!(sizes(&packets), vec![1; count]);
        }
    }
}

#[test]
fn a_partial_checksum_of_an_unknown_flow_is_left_to_the_caller() {
    let mut coalescer = Coalescer::new(true, 0);
    coalescer.group_packets(&[[0x46; 60]], |_| Joining { has_partial_checksum: true, ..JOINS });
    let group = coalescer.groups().next().unwrap();
    assert!(group.is_unfinished() && !group.is_single());
}
