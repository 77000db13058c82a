//! Replays the fuzzers' corpus (`fuzz/corpus`), so that every find stays found, and random bytes in the same way.

use crate::checks;
#[path = "../../../fuzz/replay.rs"]
mod replay;

use proptest::prelude::*;
use replay::{executions, replay};

#[test]
fn requests_to_a_link() {
    replay("link_control", checks::link_control);
}

#[test]
fn schedules() {
    replay("schedules", checks::schedules);
}

#[test]
fn links_files() {
    replay("links_files", checks::links_files);
}

#[test]
fn traces() {
    replay("traces", checks::traces);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: executions(200), ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        checks::link_control(&bytes);
        checks::schedules(&bytes);
        checks::links_files(&bytes);
        checks::traces(&bytes);
    }
}
