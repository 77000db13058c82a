//! What must hold of both ends of a tunnel whatever happens between them: for the fuzzer, and for the test that replays its
//! finds.

use super::faulty::{Faults, FaultyNetwork, numbered, path};
use kumade_units::Span;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// How long each of the instructions that let time pass lets it.
const STEPS: [Span; 4] = [Span::from_millis(1), Span::from_millis(30), Span::from_millis(500), Span::from_secs(6)];
/// Bytes are instructions up to this many.
const MAX_INSTRUCTIONS: usize = 60;
const PATHS: usize = 2;

/// Two ends and two paths, which do as the bytes say. Each instruction is a byte, and its operand:
///
/// - 0 to 2: a host of the first end sends packets, which are numbered; the operand says how many, and how long.
/// - 3, 4: time passes, by the operand's index in [`STEPS`].
/// - 5: a path loses, alters, doubles and reorders, as the operand's bits say.
/// - 6: a path passes only so long packets; a cut one passes none.
/// - 7: an end's clock is set.
/// - 8: the first end moves to another address.
/// - 9: an end loses what it knows.
/// - 10: bytes arrive from anywhere.
pub fn ends(data: &[u8]) {
    let mut world = FaultyNetwork::new(vec![path(10, 1500), path(25, 1420)], u32::MAX);
    let (mut offered, mut delivered) = (Vec::new(), BTreeSet::new());
    let mut bytes = data.iter().copied();
    for _ in 0..MAX_INSTRUCTIONS {
        let (Some(instruction), Some(operand)) = (bytes.next(), bytes.next()) else { break };
        let which = usize::from(operand) % PATHS;
        match instruction % 11 {
            0..=2 => send(&mut world, &mut offered, operand),
            3 | 4 => world.run(STEPS[usize::from(operand) % STEPS.len()]),
            5 => world.paths[which].faults = faults(operand),
            6 => {
                world.paths[which].mtu = 1000 + 8 * usize::from(operand / 4);
                world.paths[which].is_cut = operand & 2 != 0;
            }
            7 => {
                world.clock_offsets[which] = Span::from_secs(1 << (operand / 8)) * if operand & 4 == 0 { 1 } else { -1 }
            }
            8 => world.address_of_first = Ipv4Addr::new(198, 51, 100, operand),
            9 => world.restart(which),
            _ => {
                let datagram = bytes.by_ref().take(usize::from(operand)).collect();
                world.forge(which, datagram);
            }
        }
        verify(&world, &offered, &mut delivered);
    }
    world.run(Span::from_secs(2));
    verify(&world, &offered, &mut delivered);
}

fn send(world: &mut FaultyNetwork, offered: &mut Vec<Vec<u8>>, operand: u8) {
    for _ in 0..=operand % 8 {
        let packet = numbered(offered.len() as u32, 24 + usize::from(operand / 8) * 46);
        world.offer(0, &packet);
        offered.push(packet);
    }
}

fn faults(operand: u8) -> Faults {
    let often = |bit: u8| if operand >> bit & 1 == 0 { 0.0 } else { 0.3 };
    Faults {
        loss: often(1),
        corruption: often(2),
        duplication: often(3),
        reordering: often(4),
        max_reordering_delay: Span::from_millis(1 << (operand >> 5)),
    }
}

/// What is delivered was sent, as it was sent, and comes once.
fn verify(world: &FaultyNetwork, offered: &[Vec<u8>], delivered: &mut BTreeSet<usize>) {
    let seen = delivered.len();
    for packet in world.received[1].iter().skip(seen) {
        let number = packet.get(20..24).map(|number| u32::from_be_bytes(number.try_into().expect("four bytes")));
        let number = number.expect("a numbered packet") as usize;
        assert_eq!(Some(packet), offered.get(number), "nothing is altered");
        assert!(delivered.insert(number), "nothing comes twice");
    }
}
