use std::fmt::{self, Display, Formatter};
use thiserror::Error;

/// In which ratio paths get packets, as integers without a common divisor: 16:3, 1:1:2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRatio(Vec<u32>);

/// A ratio of too many packets in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the ratio {ratio} takes {sum} packets for one turn, more than {}: round it", PathRatio::MAX_ROUND_PACKETS)]
pub struct RatioError {
    ratio: String,
    sum: u64,
}

impl PathRatio {
    /// The most packets in one turn: the kernel holds each with its path.
    pub const MAX_ROUND_PACKETS: u64 = 1000;

    /// Of weights that may have a common divisor, or all be 0.
    ///
    /// # Errors
    /// It is finer than the kernel can hold.
    pub fn new(weights: impl IntoIterator<Item = u32>) -> Result<Self, RatioError> {
        let weights: Vec<u32> = weights.into_iter().collect();
        let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
        let ratio = PathRatio(weights.into_iter().map(|weight| weight / divisor).collect());
        match ratio.0.iter().copied().map(u64::from).sum() {
            0..=Self::MAX_ROUND_PACKETS => Ok(ratio),
            sum => Err(RatioError { ratio: ratio.to_string(), sum }),
        }
    }

    /// Whether no path gets a packet.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|part| *part == 0)
    }

    /// The paths' places in the order of the packets of one turn: each as often in a row as its part says.
    pub fn round_paths(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(place, part)| std::iter::repeat_n(place, *part as usize))
    }
}

impl Display for PathRatio {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&parts.join(":"))
    }
}

/// Of two numbers; the other one where one is 0.
fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ratio_is_reduced_and_taken_in_rows() {
        let ratio = PathRatio::new([32, 0, 6]).unwrap();
        assert_eq!(ratio.to_string(), "16:0:3");
        assert_eq!(ratio.round_paths().collect::<Vec<_>>(), [[0; 16].as_slice(), &[2; 3]].concat());
        assert!(PathRatio::new([0, 0]).unwrap().is_zero());
        assert!(PathRatio::new([]).unwrap().is_zero());
        let error = PathRatio::new([u32::MAX, 1000]).unwrap_err().to_string();
        assert!(error.contains("858993459:200") && error.contains("round it"), "{error}");
    }

    proptest! {
        #[test]
        fn each_path_gets_its_part_of_every_turn(weights in prop::collection::vec(0u32..300, 1..8)) {
            let Ok(ratio) = PathRatio::new(weights.clone()) else { return Ok(()) };
            let turn: Vec<_> = ratio.round_paths().collect();
            prop_assert!(turn.len() as u64 <= PathRatio::MAX_ROUND_PACKETS);
            let sum: u32 = weights.iter().sum();
            for (place, weight) in weights.iter().enumerate() {
                let part = turn.iter().filter(|of| **of == place).count() as u32;
                prop_assert_eq!(part * sum, weight * turn.len() as u32);
            }
        }
    }
}
