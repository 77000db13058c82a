use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Where a carried connection leads: a TCP port of a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The host.
    pub host: TargetHost,
    /// Its port.
    pub port: u16,
}

/// A host, as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TargetHost {
    /// By its address; an IPv4 address is one, however it was written.
    Address(IpAddr),
    /// By its name, which the far end looks up: lower-case letters, digits, `-`, `_` and `.`.
    Name(String),
}

/// Text that is no [`Target`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no target: write HOST:PORT, like db.example:5432, 10.2.0.7:22 or [fd77::1]:22")]
pub struct TargetError(pub(crate) String);

/// Of a name (RFC 1035 §2.3.4), in its text form.
const MAX_NAME_BYTES: usize = 253;
/// Of each part of it.
const MAX_LABEL_BYTES: usize = 63;

impl TargetHost {
    /// A host by its address or name. None if it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(TargetHost::Address(address.to_canonical()));
        }
        let is_label = |label: &str| {
            let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.chars().all(is_letter)
        };
        let fits = text.len() <= MAX_NAME_BYTES && text.split('.').all(is_label);
        fits.then(|| TargetHost::Name(text.to_ascii_lowercase()))
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let invalid = || TargetError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(invalid)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        // An IPv6 address without brackets could end in what looks like a port.
        let host = bracketed.or_else(|| (!host.contains(':')).then_some(host)).and_then(TargetHost::parse);
        Ok(Target { host: host.ok_or_else(invalid)?, port })
    }
}

impl fmt::Display for TargetHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetHost::Address(address) => write!(f, "{address}"),
            TargetHost::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            TargetHost::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_its_port() {
        for text in ["db.example:5432", "10.2.0.7:22", "[fd77::1]:22"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("[::ffff:127.0.0.1]:80".parse::<Target>().unwrap().to_string(), "127.0.0.1:80");
        assert_eq!("127.0.0.1.:80".parse::<Target>().unwrap().host, TargetHost::Address([127, 0, 0, 1].into()));
        assert_eq!("DB.Example.:5432".parse::<Target>().unwrap().to_string(), "db.example:5432");
        let (long, label) = (format!("{}a:1", "a.".repeat(127)), format!("{}:1", "a".repeat(64)));
        for text in [
            "db",
            "db:0",
            "db:x",
            ":80",
            "fd77::1:22",
            "a b:1",
            "a\u{e4}:1",
            "[]:1",
            "127.0.0..:80",
            ".a:1",
            &long,
            &label,
        ] {
            assert!(text.parse::<Target>().unwrap_err().to_string().contains("write HOST:PORT"), "{text}");
        }
    }
}
