use std::str::FromStr;
use thiserror::Error;

/// A path in one word: `eth1`, `eth1:16`, `eth1:16@192.0.2.1`, `eth1@192.0.2.1,2001:db8::1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOption {
    /// Where its packets leave.
    pub interface: String,
    /// Its part of the packets.
    pub weight: Option<u32>,
    /// Its next hops.
    pub gateways: Vec<String>,
}

/// A path that is written otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no path: write INTERFACE[:WEIGHT][@GATEWAY[,GATEWAY]], like eth1:16@192.0.2.1")]
pub struct PathOptionError(String);

impl FromStr for PathOption {
    type Err = PathOptionError;

    fn from_str(text: &str) -> Result<Self, PathOptionError> {
        let error = || PathOptionError(text.to_owned());
        let (path, gateways) = text.split_once('@').map_or((text, None), |(path, rest)| (path, Some(rest)));
        let (interface, weight) = path.split_once(':').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let weight = weight.map(|weight| weight.parse().map_err(|_| error())).transpose()?;
        let gateways: Vec<_> = gateways.into_iter().flat_map(|list| list.split(',').map(str::to_owned)).collect();
        if interface.is_empty() || gateways.iter().any(String::is_empty) {
            return Err(error());
        }
        Ok(PathOption { interface: interface.to_owned(), weight, gateways })
    }
}

impl PathOption {
    /// The networks that all other addresses come to: those of the IP versions for which every path has a next hop, or none has any.
    pub fn default_networks(paths: &[PathOption]) -> Vec<&'static str> {
        let has = |path: &PathOption, v6: bool| path.gateways.iter().any(|gateway| gateway.contains(':') == v6);
        let serves = |v6| paths.iter().all(|path| path.gateways.is_empty() || has(path, v6));
        [("0.0.0.0/0", false), ("::/0", true)].into_iter().filter(|(_, v6)| serves(*v6)).map(|(all, _)| all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_in_one_word() {
        let read = |text: &str| text.parse::<PathOption>();
        let path = |interface: &str, weight, gateways: &[&str]| PathOption {
            interface: interface.into(),
            weight,
            gateways: gateways.iter().map(|gateway| (*gateway).to_owned()).collect(),
        };
        assert_eq!(read("eth1"), Ok(path("eth1", None, &[])));
        assert_eq!(read("eth1:16"), Ok(path("eth1", Some(16), &[])));
        assert_eq!(read("eth1@2001:db8::1"), Ok(path("eth1", None, &["2001:db8::1"])));
        assert_eq!(read("a:3@10.0.0.1,fd00::1"), Ok(path("a", Some(3), &["10.0.0.1", "fd00::1"])));
        for nonsense in ["", ":3", "eth1:", "eth1:x", "eth1:-1", "eth1@", "eth1@a,"] {
            assert!(read(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn all_other_addresses_are_those_that_every_path_can_forward() {
        let networks = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(|text| text.parse().unwrap()).collect();
            PathOption::default_networks(&paths)
        };
        assert_eq!(networks(&["a", "b"]), ["0.0.0.0/0", "::/0"]);
        assert_eq!(networks(&["a@10.0.0.1", "b"]), ["0.0.0.0/0"]);
        assert_eq!(networks(&["a@10.0.0.1,fd00::1", "b@fd01::1"]), ["::/0"]);
    }
}
