//! Headers of packets between nodes that have agreed to compress them, and between others.

use super::world::{PathModel, World, model};
use kumade_multipath::{HeaderCompression, PathPolicy};
use kumade_units::{Span, Time};

/// Bytes by which packets that have arrived of those that node 0 sends were shorter; what comes out altered fails.
fn saved_bytes_per_packet(world: &mut World, span: Span) -> f64 {
    let totals = |world: &World| (world.nodes[0].remote_statuses()[0].saved_header_bytes, world.received[1].len());
    let before = totals(world);
    world.run(0, 12, world.now + span);
    let (saved, received) = totals(world);
    (saved - before.0) as f64 / (received - before.1) as f64
}

fn undecompressed_packets(world: &World) -> u64 {
    world.nodes.iter().map(|node| node.remote_statuses()[0].undecompressed_packets).sum()
}

#[test]
fn udp_over_two_paths_is_23_bytes_a_packet_shorter() {
    let mut world = World::new(1, PathPolicy::Weighted, vec![model(10, 5), model(10, 40)]);
    world.run(0, 12, Time::ZERO + Span::from_secs(2));
    // 28 bytes of headers, for which the number of the reference, an octet and the checksum stand.
    let saved = saved_bytes_per_packet(&mut world, Span::from_secs(3));
    assert!((22.9..23.1).contains(&saved), "{saved}");
    assert_eq!((undecompressed_packets(&world), world.received[1].is_sorted()), (0, true));
}

#[test]
fn it_saves_as_much_where_packets_are_lost_repeated_marked_and_copied() {
    let lossy = |delay| PathModel { loss: 20, marks: true, ..model(20, delay) };
    for choice in [PathPolicy::Weighted, PathPolicy::Redundant, PathPolicy::EarliestArrival] {
        let mut world = World::new(2, choice.clone(), vec![lossy(3), lossy(25)]);
        (world.flows, world.ecn) = (5, kumade_packet::Ecn::Ect0);
        world.run(0, 12, Time::ZERO + Span::from_secs(2));
        let saved = saved_bytes_per_packet(&mut world, Span::from_secs(3));
        // Of each packet that has come, 23, of what was lost and repeated for it, too (a twentieth), and of copies.
        let expected = if choice == PathPolicy::Redundant { 43.0..47.0 } else { 22.5..25.5 };
        assert!(expected.contains(&saved), "{choice:?}: {saved}");
        assert_eq!(undecompressed_packets(&world), 0, "{choice:?}");
    }
}

#[test]
fn a_node_compresses_nothing_for_one_that_does_not() {
    for plain in 0..2 {
        let mut world = World::new(3, PathPolicy::Weighted, vec![model(10, 5), model(10, 10)]);
        world.header_compression[plain] = HeaderCompression::Off;
        world.restart(plain);
        world.run(0, 12, Time::ZERO + Span::from_secs(3));
        assert_eq!(saved_bytes_per_packet(&mut world, Span::from_secs(2)), 0.0, "node {plain} does not");
        assert!(world.goodput(1, 0, Span::from_secs(5)) > 10.0);
        // A new version is started.
        world.header_compression[plain] = HeaderCompression::default();
        world.restart(plain);
        world.run(0, 12, world.now + Span::from_secs(20));
        assert!(saved_bytes_per_packet(&mut world, Span::from_secs(1)) > 22.0, "both do");
    }
}

/// Some version of the program compresses headers, and knows nothing of partial checksums. It is replaced, and comes back, while packets
/// are on their way.
#[test]
fn checksums_are_partial_only_where_both_ends_take_them() {
    use HeaderCompression::{PartialChecksums, WithChecksums};
    for (own, kinds) in [(0, [PartialChecksums, WithChecksums]), (1, [WithChecksums, PartialChecksums])] {
        for shards in [1, 2] {
            let paths = vec![model(60, 5), model(60, 10)];
            let mut world = World::with_shards(6, PathPolicy::Weighted, paths, [shards; 2]);
            // With shards, packets of several flows that stand for themselves.
            (world.packets_at_once, world.flows, world.sends_partial) =
                if shards > 1 { (1, shards as u32, true) } else { (20, 1, false) };
            for kind in kinds.into_iter().chain(kinds) {
                world.header_compression[own] = kind;
                world.restart(own);
                world.run(0, 40, world.now + Span::from_secs(12));
                let before = (world.partial[1], world.received[1].len());
                world.run(0, 40, world.now + Span::from_secs(1));
                let arrived = (world.partial[1] - before.0, world.received[1].len() - before.1);
                assert!(arrived.1 > 3000, "{kind:?}: {arrived:?}");
                assert_eq!(arrived.0 > 0, kind == PartialChecksums, "{kind:?}: {arrived:?}");
            }
        }
    }
}

/// Keys change every two minutes; what has been kept is of no key.
#[test]
fn other_keys_change_nothing() {
    let mut world = World::new(4, PathPolicy::Weighted, vec![model(1, 5), model(1, 10)]);
    world.run(0, 1, Time::ZERO + Span::from_secs(10));
    let before = world.nodes[0].remote_statuses()[0].handshakes;
    world.run(0, 1, world.now + Span::from_secs(300));
    let status = &world.nodes[0].remote_statuses()[0];
    assert!(status.handshakes >= before + 2);
    assert_eq!(undecompressed_packets(&world), 0);
    assert!(status.saved_header_bytes > 22 * (world.received[1].len() as u64 - 500));
}

/// A path that becomes a little narrower passes what is compressed, and nothing else of these lengths: flows that have just begun stand still
/// until that is found out.
#[test]
fn a_path_that_passes_compressed_packets_only_is_found_out_soon() {
    let path = PathModel { interface_mtu: Some(1500), ..model(20, 10) };
    let mut world = World::new(5, PathPolicy::Weighted, vec![path]);
    world.run(0, 8, Time::ZERO + Span::from_secs(10));
    let mtu = |world: &World| world.nodes[0].remote_statuses()[0].mtu.unwrap();
    let before = mtu(&world);
    // What is underway is as it was with one flow.
    world.run(0, 0, world.now + Span::from_millis(200));
    // 1200 bytes are 1252 on the path, and 1229 when they are compressed.
    world.paths[0].max_bytes = 1240;
    // Three begin beside the flow that is compressed.
    world.flows = 4;
    let start = world.now;
    while mtu(&world) == before && world.now - start < Span::from_secs(10) {
        world.run(0, 8, world.now + Span::from_millis(20));
    }
    // Packets that are lost, and a confirmation that fails; what passes is searched for from the shortest length on.
    let took = world.now - start;
    assert!(took < Span::from_secs(1), "{took:?}");
    assert!(mtu(&world) <= before - (1500 - 1240), "{}", mtu(&world));
}
