//! Another coordinator follows one that is killed.

use super::mesh::{Mesh, Victim};
use kumade_netns_testbed::eventually;
use std::time::{Duration, Instant};

/// Has a second coordinator stand by and kills the first one, which leads. Returns how long it took until the second one had acknowledged
/// results of all agents.
pub fn kill_leader(mesh: &mut Mesh) -> Duration {
    assert!(eventually(|| mesh.are_all_acknowledged()), "nobody leads");
    mesh.add_coordinator();
    assert!(eventually(|| mesh.is_other_ready()), "nobody stands by");
    mesh.kill(Victim::Coordinator);
    let begin = Instant::now();
    assert!(eventually(|| mesh.does_other_acknowledge()), "agents do not deliver to the other one");
    begin.elapsed()
}
