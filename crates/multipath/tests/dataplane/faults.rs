//! What a pair of nodes does when paths shrink, flap or lead elsewhere, and clocks step: in virtual time.

use super::faulty::{Faults, FaultyNetwork, Path, numbered, path};
use kumade_multipath::dataplane::{NodeNotice, NoticeContent, RemoteChange, RemoteStatus};
use kumade_multipath::{PathId, PathPolicy};
use kumade_packet::{Headers, checksum};
use kumade_units::{Span, Time};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn seconds(seconds: i64) -> Span {
    Span::from_secs(seconds)
}

fn connected(paths: Vec<Path>, max_packet: u32) -> FaultyNetwork {
    let mut world = FaultyNetwork::new(paths, max_packet);
    world.run(seconds(8));
    assert!(world.is_connected());
    world
}

fn path_mtus(remote: &RemoteStatus) -> Vec<Option<u32>> {
    remote.paths.iter().map(|path| path.mtu).collect()
}

/// Bytes that two paths take of an IPv4 path's MTU: IP, UDP, seal, and a message with one predecessor.
const OVERHEAD: u32 = 28 + 4 + 16 + 4 + 2;
/// Those that a single path takes.
const SINGLE_PATH_OVERHEAD: u32 = OVERHEAD - 2;

#[test]
fn the_mtu_of_each_path_is_found_and_hosts_get_the_least() {
    let world = connected(vec![path(10, 1500), path(30, 1420)], u32::MAX);
    for node in &world.nodes {
        assert_eq!(path_mtus(&node.remote_statuses()[0]), [Some(1500), Some(1420)]);
        assert_eq!(node.mtu(), Some(1420 - OVERHEAD));
    }
}

#[test]
fn a_packet_that_one_path_does_not_pass_takes_the_other_in_order() {
    let mut world = connected(vec![path(10, 1500), path(30, 1300)], 1420);
    let numbers = world.transfer(1400, seconds(2));
    world.run(seconds(1));
    assert!(world.numbers().into_iter().eq(numbers));
    // Short ones take the other one, too, which has carried nothing so far.
    world.discard_deliveries();
    let before: Vec<_> = sent_packets(&world);
    let numbers = world.transfer(400, seconds(2));
    world.run(seconds(1));
    assert_eq!(world.numbers().len(), numbers.len());
    assert!(sent_packets(&world)[1] > before[1] + 200);
    assert_eq!(world.nodes[0].statistics().oversized_packets, 0);
}

fn sent_packets(world: &FaultyNetwork) -> Vec<u64> {
    world.nodes[0].remote_statuses()[0].paths.iter().map(|path| path.status.sent_packets).collect()
}

#[test]
fn a_host_is_told_of_a_packet_that_no_path_passes() {
    let mut world = connected(vec![path(10, 1400), path(10, 1400)], 9000);
    let mut v6 = vec![0; 1400];
    v6[0] = 0x60;
    v6[4..8].copy_from_slice(&[(1360 >> 8) as u8, (1360 & 255) as u8, 253, 64]);
    (v6[8], v6[9], v6[23]) = (0xfd, 0, 9);
    (v6[24], v6[25], v6[39]) = (0xfd, 1, 9);
    for packet in [numbered(1, 1400), v6] {
        world.received[0].clear();
        world.offer(0, &packet);
        world.run(seconds(1));
        let error = world.received[0].first().expect("an ICMP error");
        let headers = Headers::parse(error).unwrap();
        assert!(headers.is_icmp_error() && checksum::is_valid(error) == Ok(true));
        assert_eq!(headers.destination, Headers::parse(&packet).unwrap().source);
        let told = &error[headers.transport_offset + 4..headers.transport_offset + 8];
        assert_eq!(u32::from_be_bytes(told.try_into().unwrap()), 1400 - OVERHEAD);
    }
    assert!(world.received[1].is_empty());
    assert_eq!(world.nodes[0].statistics().oversized_packets, 2);
}

/// A SYN from a host of node 0, or the answer of one of node 1.
fn syn(is_answer: bool) -> Vec<u8> {
    let mut packet = numbered(0, 44);
    packet[9] = 6;
    packet[32..34].copy_from_slice(&[6 << 4, if is_answer { 0x12 } else { 2 }]);
    packet[40..44].copy_from_slice(&[2, 4, 0x05, 0xb4]);
    if is_answer {
        packet[12..20].copy_from_slice(&[10, 0, 1, 9, 10, 0, 0, 9]);
    }
    checksum::set(&mut packet).unwrap();
    packet
}

#[test]
fn both_ends_of_a_tcp_connection_send_what_all_paths_pass() {
    let mut world = connected(vec![path(10, 1500), path(30, 1420)], u32::MAX);
    world.offer(0, &syn(false));
    world.offer(1, &syn(true));
    world.run(seconds(1));
    for received in &world.received {
        let segment = received.first().unwrap();
        let announced = u16::from_be_bytes(segment[42..44].try_into().unwrap());
        assert_eq!(u32::from(announced), 1420 - OVERHEAD - 40);
        assert_eq!(checksum::is_valid(segment), Ok(true));
    }
}

/// The longest packets, too: copies of those were one octet longer than paths pass.
#[test]
fn what_one_path_loses_is_repeated_by_the_other_in_order() {
    let lossy = |delay| Path { faults: Faults { loss: 0.005, ..Faults::default() }, ..path(delay, 1500) };
    for is_longest in [false, true] {
        let mut world = connected(vec![lossy(10), lossy(25)], u32::MAX);
        let bytes = world.nodes[0].mtu().filter(|_| is_longest).map_or(1400, |mtu| mtu as usize);
        assert_eq!(bytes == 1500 - OVERHEAD as usize, is_longest);
        check_repeats(&mut world, bytes);
    }
}

fn check_repeats(world: &mut FaultyNetwork, bytes: usize) {
    world.transfer(bytes, seconds(2));
    world.discard_deliveries();
    let lost = |world: &FaultyNetwork| {
        let status = &world.nodes[0].remote_statuses()[0];
        (status.paths.iter().map(|path| path.status.lost_packets).sum::<u64>(), status.repeated_packets)
    };
    let before = lost(world);
    let numbers = world.transfer(bytes, seconds(20));
    world.run(seconds(1));
    let (lost, repeated) = (lost(world).0 - before.0, lost(world).1 - before.1);
    let arrived = world.numbers();
    let missing = numbers.len() - arrived.len();
    println!("{lost} of {} lost, {repeated} repeated, {missing} missing", numbers.len());
    assert!(lost > 30, "there is something to repeat: {lost}");
    // A report or what is repeated may be lost, too.
    assert!(missing as u64 <= lost / 8, "{missing} of {lost}");
    assert!(repeated <= lost + lost / 8, "nothing else is repeated: {repeated} of {lost}");
    assert!(arrived.is_sorted_by(|one, next| one < next), "nothing comes out of order or twice");
}

#[test]
fn copies_of_the_longest_packets_pass_every_path() {
    let mut world = FaultyNetwork::with_policy(vec![path(10, 1500), path(30, 1500)], PathPolicy::Redundant);
    world.run(seconds(8));
    let mtu = world.nodes[0].mtu().unwrap();
    assert_eq!(mtu, 1500 - OVERHEAD);
    let received = |world: &FaultyNetwork| {
        let status = &world.nodes[1].remote_statuses()[0];
        [0, 1].map(|path| status.paths[path].received_bytes)
    };
    let before = received(&world);
    let numbers = world.transfer(mtu as usize, seconds(2));
    world.run(seconds(1));
    let bytes = u64::from(mtu) * numbers.len() as u64;
    assert!(world.numbers().into_iter().eq(numbers));
    for (after, before) in received(&world).into_iter().zip(before) {
        assert!(after - before > bytes, "{} of {bytes}", after - before);
    }
}

/// It was taken for a sign that the path has come as far again: for 8000 packets, nothing of the new life was opened.
#[test]
fn a_datagram_of_a_peers_last_life_stops_nothing() {
    let mut world = connected(vec![path(10, 1500)], u32::MAX);
    world.transfer(1000, seconds(30));
    world.holds_back = Some(1000);
    world.transfer(1000, seconds(1));
    assert_eq!(world.held_back.len(), 1);
    world.restart(0);
    while world.nodes[1].remote_statuses()[0].restarts == 0 || !world.is_connected() {
        world.run(Span::from_millis(10));
    }
    world.discard_deliveries();
    world.release_held_back();
    let numbers = world.transfer(1000, seconds(2));
    world.run(seconds(1));
    assert!(world.numbers().into_iter().eq(numbers));
}

#[test]
fn new_keys_change_nothing_in_the_middle_of_a_transfer() {
    let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
    let handshakes = |world: &FaultyNetwork| world.nodes[0].remote_statuses()[0].handshakes;
    let before = handshakes(&world);
    let bytes = world.nodes[0].mtu().unwrap() as usize;
    let numbers = world.transfer(bytes, seconds(130));
    world.run(seconds(1));
    assert!(handshakes(&world) > before);
    assert!(world.numbers().into_iter().eq(numbers));
}

#[test]
fn the_longest_packets_pass_with_a_long_index_too() {
    let mut world = FaultyNetwork::with_silent_peers(vec![path(10, 1500), path(30, 1420)], 1100);
    world.run(seconds(8));
    world.restart(0);
    world.run(seconds(30));
    let mtu = world.nodes[0].mtu().unwrap();
    assert_eq!(mtu, 1420 - OVERHEAD - 2, "two octets more of the index");
    let numbers = world.transfer(mtu as usize, seconds(2));
    world.run(seconds(1));
    assert!(world.numbers().into_iter().eq(numbers));
}

#[test]
fn a_path_that_shrinks_during_a_transfer_costs_a_moment_only() {
    let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
    world.transfer(1400, seconds(2));
    world.paths[0].mtu = 1400;
    world.transfer(1400, seconds(4));
    world.discard_deliveries();
    let numbers = world.transfer(1400, seconds(2));
    world.run(seconds(1));
    assert!(world.numbers().into_iter().eq(numbers), "by the other path");
    world.run(seconds(5));
    assert_eq!(path_mtus(&world.nodes[0].remote_statuses()[0]), [Some(1400), Some(1500)]);
    assert_eq!(world.nodes[0].mtu(), Some(1400 - OVERHEAD), "the hosts' device follows");
}

#[test]
fn a_single_path_that_shrinks_carries_what_still_passes() {
    let mut world = connected(vec![path(10, 1500)], u32::MAX);
    world.transfer(1400, seconds(2));
    world.paths[0].mtu = 1300;
    world.transfer(1400, seconds(6));
    let mtu = world.nodes[0].mtu().unwrap();
    assert!(mtu > 1300 - SINGLE_PATH_OVERHEAD - 8 && mtu <= 1300 - SINGLE_PATH_OVERHEAD, "{mtu}");
    world.discard_deliveries();
    let numbers = world.transfer(mtu as usize, seconds(2));
    world.run(seconds(1));
    assert!(world.numbers().into_iter().eq(numbers));
}

/// How long a TCP connection of a host pauses when the only path shrinks in mid-flow: its host repeats one packet after 200 ms,
/// and each time after twice as long, until it is told what passes. Other hosts may send short packets meanwhile.
fn pause_of_a_connection(seed: u64, delay_millis: i64, mtu: usize, loss: f64, has_short_packets: bool) -> Span {
    const PACKET_BYTES: usize = 1400;
    let mut world = FaultyNetwork::with_seed(seed, vec![path(delay_millis, 1500)], u32::MAX);
    world.run(seconds(8));
    world.transfer(PACKET_BYTES, seconds(2));
    world.discard_deliveries();
    world.transfer(PACKET_BYTES, Span::from_millis(3 * delay_millis));
    (world.paths[0].mtu, world.paths[0].faults.loss) = (mtu, loss);
    let shrunk = world.now;
    // A window is a round trip's worth, and ten packets at least.
    world.transfer(PACKET_BYTES, Span::from_millis((2 * delay_millis).max(10)));
    world.received.iter_mut().for_each(Vec::clear);
    let (mut timeout, mut next_repeat) = (Span::from_millis(200), world.now + Span::from_millis(200));
    let (mut packet_bytes, mut is_told) = (PACKET_BYTES, false);
    loop {
        let told = world.received[0].drain(..).find(|packet| packet[9] == 1 && packet[20..22] == [3, 4]);
        if let Some(error) = told {
            packet_bytes = usize::from(u16::from_be_bytes([error[26], error[27]]));
            is_told = true;
        }
        // Then its host repeats all that was lost.
        if world.now >= next_repeat || is_told {
            world.offer(0, &numbered(u32::MAX, packet_bytes));
            (timeout, next_repeat) = (timeout * 2, world.now + timeout * 2);
        }
        if has_short_packets {
            world.offer(0, &numbered(0, 60));
        }
        world.run(Span::from_millis(2));
        if world.numbers().contains(&u32::MAX) {
            return world.now - shrunk;
        }
        assert!(world.now - shrunk < seconds(20), "seed {seed}: {delay_millis} ms, {mtu}, {loss}");
    }
}

/// Three seconds and more before (issue 40, 7).
#[test]
fn a_connection_goes_on_within_a_second_when_its_path_shrinks() {
    for delay_millis in [1, 10, 25] {
        for mtu in [1210, 1300, 1352, 1400, 1420] {
            for has_short_packets in [false, true] {
                let pause = pause_of_a_connection(1, delay_millis, mtu, 0.0, has_short_packets);
                assert!(pause <= seconds(1), "{delay_millis} ms, {mtu}, {has_short_packets}: {pause}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_connection_goes_on_within_three_seconds_when_its_path_shrinks_and_loses_some(
        seed: u64, delay_millis in 1i64..60, mtu in 1208usize..1440, loss in 0.0f64..0.05, has_short_packets: bool,
    ) {
        let pause = pause_of_a_connection(seed, delay_millis, mtu, loss, has_short_packets);
        prop_assert!(pause <= seconds(3), "{}", pause);
    }
}

/// What is lost when a path goes is what was on it; all else comes, once and in order.
#[test]
fn a_path_that_flaps_every_second_stops_nothing() {
    let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
    let (mut offered, start) = (0, world.now);
    for round in 0..60 {
        world.paths[0].is_cut = round % 2 == 0;
        offered += world.transfer(1200, seconds(1)).len();
    }
    world.run(seconds(1));
    let numbers = world.numbers();
    assert!(numbers.is_sorted_by(|one, other| one < other));
    // Each failure is noticed within some 100 ms, and the path is held down longer each time.
    assert!(numbers.len() * 20 > offered * 19, "{} of {offered} since {start:?}", numbers.len());
}

#[test]
fn a_peer_whose_address_changes_is_followed_on_every_path() {
    let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
    world.address_of_first = Ipv4Addr::new(198, 51, 100, 7);
    world.transfer(1200, seconds(2));
    let status = &world.nodes[1].remote_statuses()[0];
    let addresses: Vec<_> = status.paths.iter().map(|path| path.address.unwrap().ip().to_string()).collect();
    assert_eq!(addresses, ["198.51.100.7", "198.51.101.7"]);
    assert_eq!(path_mtus(status), [Some(1500), Some(1500)]);
    world.discard_deliveries();
    let numbers = world.transfer(1400, seconds(2));
    world.run(seconds(1));
    assert!(world.numbers().into_iter().eq(numbers));
}

/// It took the 15 s after which data without an answer asks for a new session, and what TCP connections backed off meanwhile.
#[test]
fn a_listener_that_restarts_is_found_again_within_a_second() {
    let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
    world.transfer(1200, seconds(2));
    world.restart_as_listener(1);
    let restarted = world.now;
    while world.numbers().last().is_none_or(|number| *number < 2100) {
        world.transfer(1200, Span::from_millis(10));
        assert!(world.now - restarted < seconds(30));
    }
    assert!(world.now - restarted < seconds(1), "{}", world.now - restarted);
    world.run(seconds(1));
    assert!(world.is_connected());
}

#[test]
fn a_clock_that_steps_back_an_hour_stops_nothing() {
    let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
    world.clock_offsets = [seconds(-3600), Span::ZERO];
    // Keys are made anew after two minutes, by either side.
    let numbers = world.transfer(200, seconds(300));
    world.run(seconds(1));
    assert!(world.numbers().into_iter().eq(numbers));
}

#[test]
fn a_peer_that_restarts_with_its_clock_an_hour_behind_is_connected_again_within_half_a_minute() {
    for own in 0..2 {
        let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
        world.transfer(200, seconds(3));
        world.clock_offsets[own] = seconds(-3600);
        world.restart(own);
        world.transfer(200, seconds(30));
        world.discard_deliveries();
        let numbers = world.transfer(200, seconds(2));
        world.run(seconds(1));
        assert_eq!(world.numbers().len(), numbers.len(), "node {own} has restarted");
    }
}

/// What was told of the peer of a node since the last call.
fn take_changes(world: &mut FaultyNetwork, own: usize) -> Vec<(Time, RemoteChange)> {
    let notices = std::mem::take(&mut world.notices[own]);
    let change = |notice: NodeNotice| match notice.content {
        NoticeContent::Remote { remote: 0, change } => Some((notice.time, change)),
        // One that is not answered for long.
        _ => None,
    };
    notices.into_iter().filter_map(change).collect()
}

#[test]
fn it_is_told_when_a_path_or_the_peer_is_lost_and_back_and_a_status_counts_from_the_last_word() {
    let second = PathId::all().nth(1).unwrap();
    let mut world = connected(vec![path(10, 1500), path(20, 1500)], u32::MAX);
    for own in 0..2 {
        let changes = take_changes(&mut world, own);
        assert!(matches!(changes[..], [(_, RemoteChange::Connected)]), "{changes:?}");
    }
    // A path, while nothing but probes passes.
    world.paths[1].is_cut = true;
    world.run(seconds(5));
    world.paths[1].is_cut = false;
    world.run(seconds(15));
    for own in 0..2 {
        let changes: Vec<_> = take_changes(&mut world, own).into_iter().map(|(_, change)| change).collect();
        assert_eq!(changes, [RemoteChange::PathFailed(second), RemoteChange::PathReturned(second)]);
        let status = &world.nodes[own].remote_statuses()[0];
        assert_eq!((status.losses, [0, 1].map(|path| status.paths[path].failures)), (0, [0, 1]));
    }
    // All of them, although the keys are valid for minutes.
    world.paths.iter_mut().for_each(|path| path.is_cut = true);
    let cut = world.now;
    world.run(seconds(35));
    for own in 0..2 {
        let (told, change) = *take_changes(&mut world, own).last().unwrap();
        let RemoteChange::Lost { last_heard: Some(last_heard) } = change else { panic!("{change:?}") };
        assert!(told - cut < seconds(5) && (last_heard - cut).as_secs_f64().abs() < 1.1, "{}", told - cut);
        let status = &world.nodes[own].remote_statuses()[0];
        assert_eq!((status.is_connected, status.state_since, status.losses), (false, last_heard, 1));
        assert_eq!(status.last_heard, Some(last_heard));
    }
    world.paths.iter_mut().for_each(|path| path.is_cut = false);
    world.run(seconds(30));
    for own in 0..2 {
        let changes = take_changes(&mut world, own);
        let connected = changes.iter().filter(|(_, change)| *change == RemoteChange::Connected).count();
        assert!(connected == 1 && world.is_connected(), "{changes:?}");
    }
    // One that restarts is not lost.
    world.restart(0);
    world.run(seconds(30));
    let changes = take_changes(&mut world, 1);
    assert!(changes.iter().any(|(_, change)| *change == RemoteChange::Restarted), "{changes:?}");
    assert_eq!(changes.last().map(|(_, change)| *change), Some(RemoteChange::Connected));
}
