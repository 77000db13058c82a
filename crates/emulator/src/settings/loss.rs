//! Loss, in the words of users: a part of all packets, alone, in bursts or correlated, or one of netem's two models.

use super::value::{parse_mean_burst, parse_ratio};
use kumade_link::Loss;
use kumade_units::{ConfigError, exact_text};

/// Setting one of the last three takes the place of what was set before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LossSettings {
    /// A part of all packets, in bursts of this many on the average.
    Mean { ratio: f64, mean_burst_packets: f64 },
    /// A part of all packets, where a loss makes the next one likelier.
    Correlated { ratio: f64, correlation: f64 },
    /// The four probabilities as `netem` has them: of turning bad, of turning good, of a loss in bad and in good times.
    GilbertElliott([f64; 4]),
    /// p13, p31, p32, p23 and p14, as `netem` has them.
    FourState([f64; 5]),
}

impl Default for LossSettings {
    fn default() -> Self {
        LossSettings::Mean { ratio: 0.0, mean_burst_packets: 1.0 }
    }
}

impl LossSettings {
    /// Reads what is written behind `key`.
    pub(super) fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        *self = match (key, *self) {
            ("loss", LossSettings::Correlated { correlation, .. }) => {
                LossSettings::Correlated { ratio: parse_ratio(text)?, correlation }
            }
            ("loss", LossSettings::Mean { mean_burst_packets, .. }) => {
                LossSettings::Mean { ratio: parse_ratio(text)?, mean_burst_packets }
            }
            ("loss", _) => LossSettings::Mean { ratio: parse_ratio(text)?, mean_burst_packets: 1.0 },
            ("loss-burst", before) => {
                LossSettings::Mean { ratio: before.ratio(), mean_burst_packets: parse_mean_burst(text)? }
            }
            ("loss-correlation", before) => match parse_ratio(text)? {
                0.0 => LossSettings::Mean { ratio: before.ratio(), mean_burst_packets: 1.0 },
                correlation => LossSettings::Correlated { ratio: before.ratio(), correlation },
            },
            ("gilbert-elliott", _) => LossSettings::GilbertElliott(parse_gilbert_elliott(text)?),
            _ => LossSettings::FourState(parse_four_states(text)?),
        };
        Ok(())
    }

    /// Of those that have one.
    fn ratio(self) -> f64 {
        match self {
            LossSettings::Mean { ratio, .. } | LossSettings::Correlated { ratio, .. } => ratio,
            LossSettings::GilbertElliott(_) | LossSettings::FourState(_) => 0.0,
        }
    }

    /// What differs from no loss, as it is read.
    pub(super) fn to_words(self) -> Vec<(&'static str, String)> {
        let joined = |probabilities: &[f64]| {
            probabilities.iter().map(|probability| exact_text::ratio(*probability)).collect::<Vec<_>>().join(",")
        };
        let ratio = (self.ratio() != 0.0).then(|| ("loss", exact_text::ratio(self.ratio())));
        let rest = match self {
            LossSettings::Mean { mean_burst_packets: 1.0, .. } => None,
            LossSettings::Mean { mean_burst_packets: burst, .. } => Some(("loss-burst", burst.to_string())),
            LossSettings::Correlated { correlation, .. } => Some(("loss-correlation", exact_text::ratio(correlation))),
            LossSettings::GilbertElliott(four) => Some(("gilbert-elliott", joined(&four))),
            LossSettings::FourState(five) => Some(("loss-state", joined(&five))),
        };
        ratio.into_iter().chain(rest).collect()
    }

    /// As the link takes it.
    pub(super) fn config(self) -> Result<Loss, ConfigError> {
        Ok(match self {
            LossSettings::Mean { ratio: 0.0, .. } => Loss::None,
            LossSettings::Mean { ratio, mean_burst_packets: 1.0 } => Loss::Independent(ratio),
            LossSettings::Mean { ratio, mean_burst_packets } => Loss::bursts(ratio, mean_burst_packets)?,
            LossSettings::Correlated { ratio: 0.0, .. } => Loss::None,
            LossSettings::Correlated { ratio, correlation } => Loss::correlated(ratio, correlation),
            LossSettings::GilbertElliott([good_to_bad, bad_to_good, loss_in_bad, loss_in_good]) => {
                Loss::GilbertElliott { good_to_bad, bad_to_good, loss_in_good, loss_in_bad }
            }
            LossSettings::FourState([p13, p31, p32, p23, p14]) => Loss::FourState { p13, p31, p32, p23, p14 },
        })
    }
}

fn parse_probabilities(text: &str) -> Result<Vec<f64>, String> {
    text.split(',').map(parse_ratio).collect()
}

/// As `netem` has them: only the first is needed.
fn parse_gilbert_elliott(text: &str) -> Result<[f64; 4], String> {
    match parse_probabilities(text)?[..] {
        [bad] => Ok([bad, 1.0 - bad, 1.0, 0.0]),
        [bad, good] => Ok([bad, good, 1.0, 0.0]),
        [bad, good, in_bad] => Ok([bad, good, in_bad, 0.0]),
        [bad, good, in_bad, in_good] => Ok([bad, good, in_bad, in_good]),
        _ => Err(format!("`{text}` has more than four probabilities; write it like 1%,25%")),
    }
}

/// As `netem` has them: only the first is needed.
fn parse_four_states(text: &str) -> Result<[f64; 5], String> {
    let given = parse_probabilities(text)?;
    if given.len() > 5 {
        return Err(format!("`{text}` has more than five probabilities; write it like 1%,25%"));
    }
    let mut all = [given[0], 1.0 - given[0], 0.0, 1.0, 0.0];
    all[..given.len()].copy_from_slice(&given);
    Ok(all)
}
