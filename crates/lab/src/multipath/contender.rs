use super::plane::Plane;
use super::tuning::Tuning;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// What is compared: a plane, with the ratio where it takes one, and what is set on a tunnel's connections.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// The plane.
    pub plane: Plane,
    /// The ratio; none where the plane takes none.
    pub ratio: Option<PathShares>,
    /// What is set on the connections; none where that is as by default.
    pub tuning: Option<Tuning>,
}

/// A ratio as it is written: `16:3`. One share for each path, not all of them zero.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PathShares(Vec<u32>);

impl Contender {
    /// Each plane; those that take a ratio with each of these, and then with each tuning that names them.
    pub(crate) fn all_contenders(planes: &[Plane], ratios: &[PathShares], tunings: &[Tuning]) -> Vec<Contender> {
        let with = |&plane: &Plane| -> Vec<Contender> {
            match plane.takes_ratio() {
                true => ratios
                    .iter()
                    .map(|ratio| Contender { ratio: Some(ratio.clone()), ..Contender::from_plane(plane) })
                    .collect(),
                false => vec![Contender::from_plane(plane)],
            }
        };
        let tuned = |plane: &Plane| {
            let own = tunings.iter().filter(|tuning| tuning.planes.contains(plane));
            own.map(|tuning| Contender { tuning: Some(tuning.clone()), ..Contender::from_plane(*plane) })
                .collect::<Vec<_>>()
        };
        planes.iter().flat_map(with).chain(planes.iter().flat_map(tuned)).collect()
    }

    /// Why it cannot be run on this host, if it cannot.
    pub(crate) fn missing_requirement(&self) -> Option<String> {
        self.plane.peer_program()?.missing_requirement()
    }

    /// A plane as it is.
    pub(crate) fn from_plane(plane: Plane) -> Contender {
        Contender { plane, ratio: None, tuning: None }
    }
}

impl PathShares {
    /// None where all are zero.
    pub(crate) fn new(shares: Vec<u32>) -> Option<Self> {
        shares.iter().any(|share| *share > 0).then_some(PathShares(shares))
    }

    /// One for each path.
    pub fn shares(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for PathShares {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shares: Result<Vec<u32>, _> = text.split(':').map(|share| share.trim().parse()).collect();
        let shares = shares.ok().and_then(PathShares::new);
        shares.ok_or_else(|| format!("`{text}` is no ratio: write a share for each path, like 16:3"))
    }
}

impl TryFrom<String> for PathShares {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for PathShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares: Vec<_> = self.0.iter().map(u32::to_string).collect();
        f.pad(&shares.join(":"))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.ratio, &self.tuning) {
            (None, None) => self.plane.fmt(f),
            (Some(ratio), _) => f.pad(&format!("{} {ratio}", self.plane)),
            (None, Some(tuning)) => f.pad(&format!("{}, {}", self.plane, tuning.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_planes_that_divide_in_a_ratio_are_run_with_each() {
        let ratios = ["1:1", "16:3"].map(|text| text.parse().unwrap());
        let all = Contender::all_contenders(&[Plane::Single, Plane::Direct], &ratios, &[]);
        assert_eq!(all.iter().map(Contender::to_string).collect::<Vec<_>>(), ["single", "direct 1:1", "direct 16:3"]);
        for nonsense in ["", "1:x", "0:0", "1:-1"] {
            assert!(nonsense.parse::<PathShares>().is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_tuning_is_run_with_the_planes_that_it_names_and_that_are_compared() {
        let tuning = "name = \"RTO 3 s\"\nplanes = [\"tunnel-tcp\", \"tunnel-rake\"]";
        let all =
            Contender::all_contenders(&[Plane::Single, Plane::TunnelTcp], &[], &[toml::from_str(tuning).unwrap()]);
        assert_eq!(
            all.iter().map(Contender::to_string).collect::<Vec<_>>(),
            ["single", "tunnel-tcp", "tunnel-tcp, RTO 3 s"]
        );
    }
}
