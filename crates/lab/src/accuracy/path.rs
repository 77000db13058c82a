//! The links that an experiment's path consists of.

use crate::accuracy::scenario::{CrossKind, Scenario, optional_rate, optional_size, rate, ratio, size, span};
use crate::scenario::{MAX_DELAY, MAX_RATE, MIN_RATE, too_many_packets};
use serde::Deserialize;
use units::Direction;
use units::{Rate, Span};

/// The link that limits the path, the same in both directions unless a rate down is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// Who shapes.
    #[serde(default)]
    pub kind: BottleneckKind,
    /// Its capacity, counted in IP packets; with a burst, that in the long run.
    #[serde(deserialize_with = "rate")]
    pub rate: Rate,
    /// Its capacity towards the host that measures, where it is another one.
    #[serde(default, deserialize_with = "optional_rate")]
    pub down_rate: Option<Rate>,
    /// What passes at the peak rate after a pause: the size of a token bucket. Both are given, or neither.
    #[serde(default, deserialize_with = "optional_size")]
    pub burst: Option<u64>,
    /// The rate of the line at which a burst passes.
    #[serde(default, deserialize_with = "optional_rate")]
    pub peak_rate: Option<Rate>,
    /// Propagation delay in one direction.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// How many bytes wait in front of it at most.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
}

/// Who shapes the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BottleneckKind {
    /// The lab's own link.
    #[default]
    Own,
    /// The kernel's hierarchical token bucket, as an outside reference; needs root and `tc`.
    Htb,
    /// The same link as the lab's own, under a virtual clock: no network is built.
    Virtual,
}

/// A token bucket in front of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// What passes at the line's rate after a pause.
    pub burst_bytes: u64,
    /// The line's rate.
    pub peak_rate: Rate,
}

/// A link behind the bottleneck, the same in both directions, with other users' traffic in the one that is measured. It
/// is computed inside the link.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Later {
    /// How many times as fast as the bottleneck it is.
    pub faster: f64,
    /// Its propagation delay.
    #[serde(deserialize_with = "span")]
    pub delay: Span,
    /// How many bytes wait in front of it at most.
    #[serde(deserialize_with = "size")]
    pub queue: u64,
    /// How the others' packets follow each other.
    pub kind: CrossKind,
    /// Their mean rate, as a part of the link's.
    #[serde(deserialize_with = "ratio")]
    pub load: f64,
}

impl Bottleneck {
    /// Its capacity in this direction.
    pub fn rate_of(&self, direction: Direction) -> Rate {
        self.down_rate.filter(|_| direction == Direction::Down).unwrap_or(self.rate)
    }

    /// The token bucket that it is, if it is one.
    pub fn shaper(&self) -> Option<Shaper> {
        Some(Shaper { burst_bytes: self.burst?, peak_rate: self.peak_rate? })
    }

    /// The rate at which a packet that finds nothing in its way passes.
    pub fn line_of(&self, direction: Direction) -> Rate {
        self.shaper().map_or(self.rate_of(direction), |shaper| shaper.peak_rate)
    }
}

impl Later {
    /// Its rate behind a bottleneck of that rate.
    pub fn rate(&self, bottleneck: Rate) -> Rate {
        Rate::from_f64(bottleneck.as_f64() * self.faster)
    }

    /// The mean rate of the others' packets behind a bottleneck of that rate.
    pub fn cross(&self, bottleneck: Rate) -> Rate {
        Rate::from_f64(self.rate(bottleneck).as_f64() * self.load)
    }
}

impl Scenario {
    /// What no path can be like; none if it can.
    pub(crate) fn wrong_path(&self) -> Option<String> {
        self.wrong_bottleneck().or_else(|| self.wrong_shaper()).or_else(|| self.wrong_later())
    }

    fn wrong_bottleneck(&self) -> Option<String> {
        let Bottleneck { kind, rate, down_rate, delay, .. } = self.bottleneck;
        let mut rates = [Some(rate), down_rate].into_iter().flatten();
        if let Some(rate) = rates.find(|rate| !(MIN_RATE..=MAX_RATE).contains(rate)) {
            return Some(format!("a bottleneck of {rate}; choose {MIN_RATE} to {MAX_RATE}"));
        }
        if kind == BottleneckKind::Htb && down_rate.is_some() {
            return Some("HTB with another rate down; use the lab's own link".into());
        }
        (delay > MAX_DELAY).then(|| format!("a delay of {delay}; {MAX_DELAY} are the most"))
    }

    fn wrong_shaper(&self) -> Option<String> {
        let Bottleneck { kind, rate, down_rate, burst, peak_rate, .. } = self.bottleneck;
        match (burst, peak_rate) {
            (None, None) => None,
            (Some(burst), Some(peak)) => {
                let fastest = down_rate.map_or(rate, |down| down.max(rate));
                if kind == BottleneckKind::Htb {
                    return Some("HTB as a token bucket of one's own; use the lab's own link".into());
                }
                if self.later.is_some() {
                    return Some("a token bucket with a later hop; leave one of them out".into());
                }
                if burst == 0 || peak <= fastest || peak > MAX_RATE {
                    return Some(format!(
                        "bursts of {burst} bytes at {peak}; choose 1 or more, and {fastest} to {MAX_RATE}"
                    ));
                }
                None
            }
            _ => Some("a burst without a peak_rate, or the reverse; give both or neither".into()),
        }
    }

    fn wrong_later(&self) -> Option<String> {
        let later = self.later?;
        let (up, down) = (self.bottleneck.rate_of(Direction::Up), self.bottleneck.rate_of(Direction::Down));
        if self.bottleneck.kind == BottleneckKind::Htb {
            return Some("HTB with a later hop; use the lab's own link".into());
        }
        if later.faster.is_nan() || later.faster <= 1.0 || later.rate(up.max(down)) > MAX_RATE {
            return Some(format!(
                "a later hop {} times as fast; choose more than the bottleneck, and {MAX_RATE} at most",
                later.faster
            ));
        }
        if later.kind == CrossKind::Tcp || later.load >= 1.0 {
            return Some(
                "a later hop that TCP or others fill; choose constant, poisson or on-off, and less load".into(),
            );
        }
        if later.delay > MAX_DELAY {
            return Some(format!("a later hop's delay of {}; {MAX_DELAY} are the most", later.delay));
        }
        let most = later.cross(up.max(down));
        too_many_packets(most, self.cross.packet_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_cannot_be_is_refused_with_the_reason() {
        let accuracy = include_str!("../../scenarios/rake-accuracy.toml");
        let refused = |bottleneck: &str, later: &str, part: &str| {
            let text = accuracy.replace("rate = \"100mbit\"", &format!("rate = \"100mbit\"\n{bottleneck}"));
            let later = match later {
                "" => String::new(),
                later => format!("\n[later]\nkind = \"constant\"\nqueue = \"64kb\"\n{later}"),
            };
            let error = Scenario::from_toml(&(text + &later), "own.toml").unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused("burst = \"10kb\"", "", "give both or neither");
        refused("burst = \"10kb\"\npeak_rate = \"90mbit\"", "", "choose 1 or more, and 100 Mbit/s");
        let later = "faster = 2\ndelay = \"1ms\"\nload = \"50%\"";
        refused("burst = \"10kb\"\npeak_rate = \"1gbit\"", later, "leave one of them out");
        refused("", &later.replace('2', "0.5"), "0.5 times as fast");
        refused("", &later.replace("50%", "100%"), "less load");
        refused("", &later.replace("1ms", "9s"), "delay of 9 s");
        refused("kind = \"htb\"", later, "HTB with a later hop");
    }
}
