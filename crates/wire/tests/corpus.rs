//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found.

use crate::checks;
use crate::replay::{executions, replay};
use proptest::prelude::*;

#[test]
fn control_connections() {
    replay("control", checks::control);
}

#[test]
fn conversations() {
    replay("conversation", checks::conversation);
}

#[test]
fn preambles_and_udp_packets() {
    replay("preamble", checks::preamble);
}

#[test]
fn stamp_packets() {
    replay("stamp", checks::stamp);
}

#[test]
fn stamp_extensions() {
    replay("stamp_extensions", checks::stamp_extensions);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: executions(100), ..ProptestConfig::default() })]
    /// Octets that are types, lengths and flags more often than not.
    #[test]
    fn any_stamp_extensions(
        data in prop::collection::vec(prop_oneof![0_u8..17, Just(0), Just(0x80), Just(0x40), any::<u8>()], 0..200),
    ) {
        checks::stamp_extensions(&data);
    }
}
