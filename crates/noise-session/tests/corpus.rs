//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found, and gives hosts random instructions in the
//! same way.

use crate::checks;
use crate::replay::replay;
use proptest::prelude::*;

#[test]
fn datagrams_between_two_hosts() {
    replay("sessions", checks::sessions);
}

#[test]
fn records_of_a_stream() {
    replay("records", checks::records);
}

/// An instruction of [`checks::sessions`], mostly about what was sent last.
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let host = prop_oneof![Just(0u8), Just(0x80)];
    let recent = prop_oneof![8 => 0u8..3, 1 => any::<u8>()];
    let operands = (0u8..6, recent, any::<u8>(), 1u8..);
    (host, operands, prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(host, operands, noise)| {
        let (kind, recent, at, by) = operands;
        match kind {
            4 => vec![host | kind, recent, at, by],
            5 => [&[host | kind, noise.len() as u8], &noise[..]].concat(),
            _ => vec![host | kind, recent],
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_datagrams_do_harm(instructions in prop::collection::vec(instruction(), 0..100)) {
        checks::sessions(&instructions.concat());
    }

    #[test]
    fn no_stream_does_harm(bytes in prop::collection::vec(prop_oneof![3 => 0u8..3, 1 => any::<u8>()], 0..2000)) {
        checks::records(&bytes);
    }
}
