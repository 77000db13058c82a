//! Which runs of an experiment one of several machines makes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One of several equal parts of an experiment's runs, such as `3/64`: counted from 0, as Slurm and Kubernetes count the tasks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    number: u32,
    count: u32,
}

impl Shard {
    /// Part `number` of `count` parts.
    ///
    /// # Errors
    /// There is no such part.
    pub fn new(number: u32, count: u32) -> Result<Self, String> {
        match count {
            0 => Err("there is no part of 0 parts; choose one such as 0/4".to_owned()),
            _ if number >= count => Err(format!(
                "there is no part {number}/{count}; they are counted from 0/{count} to {}/{count}",
                count - 1
            )),
            _ => Ok(Shard { number, count }),
        }
    }

    /// The part that has this run. Runs are dealt out in turn: the parts differ by one run at most, and long and short runs, which stand
    /// beside each other, come to different parts.
    pub(crate) fn with_run(run: usize, count: u32) -> Self {
        Shard { number: (run % count as usize) as u32, count }
    }

    /// Whether it has this run.
    pub fn contains(self, run: usize) -> bool {
        self == Shard::with_run(run, self.count)
    }

    /// How many of so many runs it has.
    pub fn run_count(self, runs: usize) -> usize {
        (0..runs).filter(|run| self.contains(*run)).count()
    }

    /// How many parts there are.
    pub(crate) fn count(self) -> u32 {
        self.count
    }

    /// Its number; a file is named after it.
    pub(crate) fn number(self) -> u32 {
        self.number
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        let (number, count) = numbers.ok_or("write the part and the number of parts, such as 3/64")?;
        Shard::new(number, count)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_in_one_part_and_the_parts_differ_by_one_run_at_most() {
        for (runs, count) in [(0, 1), (1, 1), (5, 1), (5, 5), (10, 3), (3, 10), (64, 7), (1000, 64)] {
            let parts: Vec<_> = (0..count).map(|number| Shard::new(number, count).unwrap()).collect();
            for run in 0..runs {
                assert_eq!(parts.iter().filter(|part| part.contains(run)).count(), 1, "run {run}, {count} parts");
            }
            let sizes: Vec<_> = parts.iter().map(|part| part.run_count(runs)).collect();
            assert_eq!(sizes.iter().sum::<usize>(), runs);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn it_is_written_as_it_is_read_and_what_is_no_part_is_refused() {
        for text in ["0/1", "3/64", "63/64"] {
            assert_eq!(text.parse::<Shard>().unwrap().to_string(), text);
        }
        let refused = |text: &str| text.parse::<Shard>().unwrap_err();
        assert!(refused("64/64").contains("counted from 0/64 to 63/64"), "{}", refused("64/64"));
        assert!(refused("0/0").contains("0 parts"));
        for text in ["", "3", "3/", "/3", "-1/3", "1/3/4", "a/b"] {
            assert!(refused(text).contains("such as 3/64"), "{text}");
        }
    }
}
