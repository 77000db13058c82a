//! `[access]` and `[tls]` of the file.

use super::types::TlsFiles;
use crate::access::{AccessClass, AccessConfig, AccessToken, TokenHash};
use kumade_daemon::ConfigFault;
use serde::Deserialize;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// `[access]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct AccessSection {
    #[serde(default)]
    public: bool,
    #[serde(default)]
    names: Vec<Spanned<String>>,
    #[serde(default)]
    token: Vec<TokenSection>,
}

/// `[[access.token]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TokenSection {
    name: Spanned<String>,
    class: AccessClass,
    hash: Spanned<String>,
}

/// `[tls]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TlsSection {
    certificate: PathBuf,
    key: PathBuf,
}

impl AccessSection {
    pub(super) fn validate(&self) -> Result<AccessConfig, ConfigFault> {
        let mut tokens: Vec<AccessToken> = Vec::new();
        for section in &self.token {
            let hash = TokenHash::parse(section.hash.get_ref())
                .map_err(|error| ConfigFault::new(section.hash.span(), error.to_string()))?;
            let name = section.name.get_ref().trim();
            let fault = |problem: String| ConfigFault::new(section.name.span(), problem);
            if name.is_empty() {
                return Err(fault("a token has a name, by which the audit tells who has done what".to_owned()));
            }
            if tokens.iter().any(|other| other.name == name) {
                return Err(fault(format!("two tokens have the name {name:?}: give each a name of its own")));
            }
            if let Some(other) = tokens.iter().find(|other| other.hash == hash) {
                return Err(fault(format!("{name:?} and {:?} are the same token: make another one", other.name)));
            }
            tokens.push(AccessToken { name: name.to_owned(), class: section.class, hash });
        }
        let names = self.names.iter().map(valid_name).collect::<Result<_, _>>()?;
        Ok(AccessConfig { is_public: self.public, names, tokens })
    }
}

impl TlsSection {
    pub(super) fn files(&self) -> TlsFiles {
        TlsFiles { certificate: self.certificate.clone(), key: self.key.clone() }
    }
}

/// Without a port: that is the page's.
fn valid_name(text: &Spanned<String>) -> Result<String, ConfigFault> {
    let name = text.get_ref();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let problem =
        || ConfigFault::new(text.span(), format!("{name:?} is no name of a host, such as monitor.example.org"));
    is_name.then(|| name.clone()).ok_or_else(problem)
}

/// What others than this host reach takes a word on who may see it.
pub(super) fn check_reach(
    access: &AccessConfig,
    key: &str,
    address: Option<SocketAddr>,
    span: Option<Range<usize>>,
) -> Result<(), ConfigFault> {
    let Some(address) = address.filter(|address| access.is_open() && !address.ip().is_loopback()) else {
        return Ok(());
    };
    let problem = format!(
        "everybody who reaches {address} could see all: append what `kumade key token NAME --class read` prints to this file, or allow it \
         with public = true in [access], or set `{key}` to a port alone, which is for this host"
    );
    Err(ConfigFault::new(span.unwrap_or_default(), problem))
}

#[cfg(test)]
mod tests {
    use crate::config::MonitorConfig;

    fn error(text: &str) -> String {
        let text = format!("{text}[[target]]\nhost = \"192.0.2.1\"\n");
        let read = MonitorConfig::from_toml(&text, "m.toml", &|_| Err(String::new()));
        read.expect_err(&text).to_string()
    }

    #[test]
    fn faults_of_access_name_their_line_and_what_to_write() {
        let token = |name: &str, class: &str, digit: &str| {
            let hash = digit.repeat(64);
            format!("[[access.token]]\nname = \"{name}\"\nclass = \"{class}\"\nhash = \"sha256:{hash}\"\n")
        };
        let one = token("a", "read", "1");
        for (text, expected) in [
            (token("a", "reed", "1"), "m.toml:3: unknown variant `reed`"),
            (token("a", "read", "x"), "m.toml:4: this is no token's hash"),
            (token(" ", "read", "1"), "m.toml:2: a token has a name"),
            (format!("{one}{}", token("a", "read", "2")), "m.toml:6: two tokens have the name \"a\""),
            (format!("{one}{}", token("b", "read", "1")), "m.toml:6: \"b\" and \"a\" are the same token"),
            ("[access]\nnames = [\"http://a.example\"]\n".to_owned(), "m.toml:2: \"http://a.example\" is no name"),
            ("[access]\npublik = true\n".to_owned(), "m.toml:2: unknown field `publik`"),
            ("[tls]\ncertificate = \"c.pem\"\n".to_owned(), "missing field `key`"),
            ("[monitor]\npage = \"[::]:80\"\n".to_owned(), "m.toml:2: everybody who reaches [::]:80"),
        ] {
            let error = error(&text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
