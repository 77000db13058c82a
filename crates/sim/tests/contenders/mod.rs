//! The methods that are compared on virtual paths: all that there are.

use kumade_estimate::{Conditions, METHODS, Method, MethodSettings};
use kumade_units::Rate;

const PACKET: u32 = 1500;

/// Each with the settings of its paper.
pub fn methods() -> Vec<MethodSettings> {
    METHODS.iter().map(|info| info.name.parse().expect("a method with its defaults")).collect()
}

/// For a link of about this capacity.
pub fn build(settings: &MethodSettings, capacity: Rate, seed: u64) -> Box<dyn Method> {
    settings.adapted_to_rate(capacity).build(&Conditions { seed, ..Conditions::new(PACKET) })
}
