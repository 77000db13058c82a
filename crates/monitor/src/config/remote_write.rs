//! `[remote-write]` of the configuration file.

use super::values::{VALID_MAX_AGES, parse_spanned, span_within};
use crate::remote_write::RemoteWriteConfig;
use kumade_daemon::ConfigFault;
use kumade_files::read_secret;
use kumade_units::Span;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;
use ureq::http::{HeaderName, HeaderValue, Uri};

/// Prometheus takes nothing that is older, unless told to.
const DEFAULT_MAX_AGE: Span = Span::from_secs(3600);
/// Longer than any token, also one that says whose it is (JWT).
const MAX_TOKEN_BYTES: u64 = 64 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RemoteWriteSection {
    url: Spanned<String>,
    token_file: Option<Spanned<PathBuf>>,
    #[serde(default)]
    headers: BTreeMap<String, Spanned<String>>,
    ca: Option<PathBuf>,
    max_age: Option<Spanned<String>>,
}

impl RemoteWriteSection {
    pub(super) fn validate(&self) -> Result<RemoteWriteConfig, ConfigFault> {
        let url = parse_spanned(&self.url, parse_url)?;
        let headers = self.headers.iter().map(|(name, value)| {
            let is_valid =
                HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value.get_ref()).is_ok();
            let fault = || ConfigFault::new(value.span(), format!("{name:?} with this value is no header of HTTP"));
            is_valid.then(|| (name.clone(), value.get_ref().clone())).ok_or_else(fault)
        });
        let read_token = |path: &Spanned<PathBuf>| {
            let fault = |problem: String| ConfigFault::new(path.span(), problem);
            let name = path.get_ref().display();
            let text = read_secret(path.get_ref(), "token in", MAX_TOKEN_BYTES);
            let text = text.map_err(|error| fault(error.to_string()))?;
            let token = text.trim();
            let is_valid = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            is_valid
                .then(|| token.to_owned())
                .ok_or_else(|| fault(format!("{name} has no token: write it on one line")))
        };
        Ok(RemoteWriteConfig {
            url,
            headers: headers.collect::<Result<_, _>>()?,
            token: self.token_file.as_ref().map(read_token).transpose()?,
            authorities: self.ca.clone(),
            max_age: span_within(self.max_age.as_ref(), DEFAULT_MAX_AGE, VALID_MAX_AGES)?,
        })
    }
}

fn parse_url(text: &str) -> Result<String, String> {
    let problem = || format!("{text:?} is no address of a receiver: write it as http://127.0.0.1:9090/api/v1/write");
    let uri: Uri = text.parse().map_err(|_| problem())?;
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(problem)?;
    if authority.as_str().contains('@') {
        return Err(
            "a password does not belong into the address: write the token into a file, and token-file = \"FILE\""
                .to_owned(),
        );
    }
    ["http", "https"].contains(&scheme).then(|| text.to_owned()).ok_or_else(problem)
}

#[cfg(test)]
mod tests {
    use crate::config::MonitorConfig;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn read(section: &str) -> Result<MonitorConfig, String> {
        let text = format!("[[target]]\nhost = \"a.example\"\n[remote-write]\n{section}");
        MonitorConfig::from_toml(&text, "m.toml", &|_: &Path| Err("no key".to_owned()))
            .map_err(|error| error.to_string())
    }

    fn write_secret(file: &Path, text: &str, mode: u32) {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let file = std::env::temp_dir().join(format!("kumade-open-token-{}", std::process::id()));
        let text = format!("url = \"https://db.example/api/v1/write\"\ntoken-file = {file:?}\n");
        write_secret(&file, "hushed\n", 0o644);
        let error = read(&text).unwrap_err();
        assert!(error.contains("m.toml:5: all users can read") && error.contains("the token in"), "{error}");
        write_secret(&file, "hushed\n", 0o640);
        assert!(read(&text).is_ok(), "a group may be trusted");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_token_is_in_no_debug_text() {
        let file = std::env::temp_dir().join(format!("kumade-token-{}", std::process::id()));
        write_secret(&file, "  hushed\n", 0o600);
        let text = format!(
            "url = \"https://db.example/api/v1/write\"\ntoken-file = {file:?}\nheaders = {{ X-Scope-OrgID = \"campus\" }}\n"
        );
        let config = read(&text).unwrap();
        std::fs::remove_file(&file).unwrap();
        let remote = config.remote_write.as_ref().unwrap();
        assert_eq!((remote.token.as_deref(), remote.max_age), (Some("hushed"), super::DEFAULT_MAX_AGE));
        assert_eq!(remote.headers, [("X-Scope-OrgID".to_owned(), "campus".to_owned())]);
        let debug = format!("{config:?}");
        assert!(!debug.contains("hushed") && !debug.contains("campus"), "{debug}");
    }

    #[test]
    fn faults_name_their_line_and_what_to_write() {
        let url = "url = \"http://127.0.0.1:9090/api/v1/write\"\n";
        for (text, expected) in [
            ("url = \"127.0.0.1:9090\"\n", "m.toml:4: \"127.0.0.1:9090\" is no address of a receiver"),
            ("url = \"ftp://a.example/\"\n", "m.toml:4: \"ftp://a.example/\" is no address"),
            ("url = \"http://me:pass@a.example/\"\n", "m.toml:4: a password does not belong"),
            ("", "missing field `url`"),
            (
                &format!("{url}token-file = \"/nonexistent/token\"\n"),
                "m.toml:5: cannot read the token in /nonexistent/token",
            ),
            (&format!("{url}headers = {{ \"a b\" = \"c\" }}\n"), "m.toml:5: \"a b\" with this value is no header"),
            (&format!("{url}max-age = \"1s\"\n"), "m.toml:5: 1s is out of range: 5min to 366d"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
