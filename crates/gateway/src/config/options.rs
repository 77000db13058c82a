use super::file::{
    BondedSection, ChoiceName, ConfigFile, GatewaySection, LocalSection, PathSection, PlaneName, RemoteSection,
    WeightsName,
};
use std::str::FromStr;
use thiserror::Error;
use toml::Spanned;

/// A simple case, without a file: one remote site, and no translation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleConfig {
    /// The gateway's name.
    pub name: String,
    /// Where Prometheus fetches metrics.
    pub prometheus: Option<String>,
    /// The command that is run when the remote gateway or a path changes.
    pub on_event: Option<String>,
    /// Interfaces behind which all hosts are local.
    pub locals: Vec<String>,
    /// In their order.
    pub paths: Vec<PathOption>,
    /// Networks; in the direct plane, all other addresses if empty.
    pub remotes: Vec<String>,
    /// What the bonded plane needs; without it, packets are forwarded as they are.
    pub bonded: Option<SimpleBonded>,
}

/// How a remote gateway is known and reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleBonded {
    /// The file of this gateway's private key.
    pub key_file: String,
    /// The remote gateway's public key.
    pub peer: String,
    /// The file of a second key that both gateways have.
    pub psk_file: Option<String>,
    /// The remote gateway's address on each path, as far as known.
    pub addresses: Vec<String>,
    /// How many threads carry packets.
    pub threads: Option<usize>,
}

/// A path in one word: `eth1`, `eth1:16`, `eth1:16@192.0.2.1`, `eth1@192.0.2.1,2001:db8::1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathOption {
    interface: String,
    weight: Option<u32>,
    gateways: Vec<String>,
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

impl SimpleConfig {
    /// As a file would say it. Paths are called `path1`, `path2` …
    pub(super) fn to_config_file(&self) -> ConfigFile {
        let path = |(number, path): (usize, &PathOption)| PathSection {
            name: unspanned(format!("path{number}")),
            interface: unspanned(&path.interface),
            gateways: path.gateways.iter().map(unspanned).collect(),
            weight: path.weight,
            rate: None,
        };
        let plane = if self.bonded.is_some() { PlaneName::Bonded } else { PlaneName::Direct };
        ConfigFile {
            gateway: GatewaySection {
                name: unspanned(&self.name),
                on_event: self.on_event.clone(),
                prometheus: self.prometheus.as_ref().map(unspanned),
                plane,
                weights: WeightsName::Fixed,
            },
            bonded: self.bonded.as_ref().map(SimpleBonded::bonded_section),
            measure: None,
            sessions: None,
            local: self
                .locals
                .iter()
                .map(|name| LocalSection { interface: unspanned(name), networks: vec![] })
                .collect(),
            path: (1..).zip(&self.paths).map(path).collect(),
            remote: vec![self.remote_section()],
            translation: Vec::new(),
        }
    }

    fn remote_section(&self) -> RemoteSection {
        let bonded = self.bonded.as_ref();
        RemoteSection {
            name: unspanned("remote"),
            networks: self.remote_networks(),
            paths: None,
            measure: Vec::new(),
            sessions: None,
            public_key: bonded.map(|bonded| unspanned(&bonded.peer)),
            preshared_key: bonded.and_then(|bonded| bonded.psk_file.clone()),
            addresses: bonded.iter().flat_map(|bonded| &bonded.addresses).map(unspanned).collect(),
        }
    }

    /// All other addresses are those of the IP versions for which every path has a next hop, or none has any.
    fn remote_networks(&self) -> Vec<Spanned<String>> {
        if !self.remotes.is_empty() || self.bonded.is_some() {
            return self.remotes.iter().map(unspanned).collect();
        }
        let has = |path: &PathOption, v6: bool| path.gateways.iter().any(|gateway| gateway.contains(':') == v6);
        let serves = |v6| self.paths.iter().all(|path| path.gateways.is_empty() || has(path, v6));
        [("0.0.0.0/0", false), ("::/0", true)]
            .iter()
            .filter(|(_, v6)| serves(*v6))
            .map(|(all, _)| unspanned(*all))
            .collect()
    }
}

impl SimpleBonded {
    fn bonded_section(&self) -> BondedSection {
        BondedSection {
            key: unspanned(&self.key_file),
            port: None,
            threads: self.threads.map(|threads| Spanned::new(0..0, threads)),
            device: None,
            mtu: None,
            addresses: Vec::new(),
            choice: ChoiceName::default(),
            dscp: None,
            unordered_dscps: Vec::new(),
            unordered_ports: Vec::new(),
        }
    }
}

fn unspanned(text: impl Into<String>) -> Spanned<String> {
    Spanned::new(0..0, text.into())
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
            let paths = paths.iter().map(|text| text.parse().unwrap()).collect();
            let (name, locals, remotes) = (String::new(), vec![], vec![]);
            let networks =
                SimpleConfig { name, prometheus: None, on_event: None, locals, paths, remotes, bonded: None }
                    .remote_networks();
            networks.into_iter().map(Spanned::into_inner).collect::<Vec<_>>()
        };
        assert_eq!(networks(&["a", "b"]), ["0.0.0.0/0", "::/0"]);
        assert_eq!(networks(&["a@10.0.0.1", "b"]), ["0.0.0.0/0"]);
        assert_eq!(networks(&["a@10.0.0.1,fd00::1", "b@fd01::1"]), ["::/0"]);
    }
}
