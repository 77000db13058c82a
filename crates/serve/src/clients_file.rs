//! The file that names the clients of a server, their keys and their quotas.

use crate::named_client::{NamedClient, Quota};
use kumade_units::parse;
use kumade_wire::PresharedKey;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use thiserror::Error;
use toml::Spanned;

/// Maximum number of clients with keys of their own: a client's first record is tried with each key, which takes 7 µs.
pub const MAX_NAMED_CLIENTS: usize = 256;
/// Maximum length of a client's name in characters.
const MAX_NAME_CHARS: usize = 64;

/// A file of clients that makes no sense: where, what, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}{}: {problem}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ClientsFileError {
    /// The file.
    pub origin: String,
    /// Counted from 1; none where it is about the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, and what to try.
    pub problem: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientsFile {
    #[serde(default)]
    client: Vec<ClientSection>,
}

/// `[[client]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ClientSection {
    /// Names it in the log.
    name: Spanned<String>,
    /// The file of its key.
    #[serde(default)]
    key: Option<Spanned<String>>,
    /// The key itself: 64 hexadecimal digits.
    #[serde(default)]
    inline_key: Option<Spanned<String>>,
    /// Such as `20gb`.
    #[serde(default)]
    bytes_per_day: Option<Spanned<String>>,
    #[serde(default)]
    measurements_per_hour: Option<NonZeroU32>,
    /// Whether it may fill the path.
    #[serde(default = "is_allowed")]
    load: bool,
}

fn is_allowed() -> bool {
    true
}

/// What is wrong, and with which part of the text.
type Fault = (Option<Range<usize>>, String);

/// Reads what a file of clients says (TOML); `origin` names it in errors, `read_key` reads the file of a key.
///
/// # Errors
/// It is no such file, names no client or more than [`MAX_NAMED_CLIENTS`], or two with one name or key; a key can't be read.
pub fn parse_clients(
    text: &str,
    origin: &str,
    mut read_key: impl FnMut(&Path) -> Result<PresharedKey, String>,
) -> Result<Vec<NamedClient>, ClientsFileError> {
    let clients = parse_sections(text).and_then(|sections| {
        let mut clients = Vec::new();
        for section in sections {
            let client = parse_client(&section, &mut read_key)?;
            if clients.iter().any(|other: &NamedClient| other.key == client.key) {
                return fault(
                    &section.name,
                    format!("{} has the key of another client: make one for each", client.name),
                );
            }
            clients.push(client);
        }
        Ok(clients)
    });
    clients.map_err(|(span, problem)| {
        let line = span.map(|span| text.get(..span.start).unwrap_or(text).matches('\n').count() + 1);
        ClientsFileError { origin: origin.to_owned(), line, problem }
    })
}

fn parse_sections(text: &str) -> Result<Vec<ClientSection>, Fault> {
    let file: ClientsFile =
        toml::from_str(text).map_err(|error: toml::de::Error| (error.span(), error.message().to_owned()))?;
    match file.client.len() {
        0 => return Err((None, "names no client: add [[client]] sections with name and key".to_owned())),
        1..=MAX_NAMED_CLIENTS => {}
        count => return Err((None, format!("names {count} clients: {MAX_NAMED_CLIENTS} are the maximum"))),
    }
    let mut names = BTreeSet::new();
    for section in &file.client {
        if !names.insert(section.name.get_ref()) {
            return fault(&section.name, format!("{} is the name of two clients", section.name.get_ref()));
        }
    }
    Ok(file.client)
}

fn parse_client(
    section: &ClientSection,
    read_key: impl FnOnce(&Path) -> Result<PresharedKey, String>,
) -> Result<NamedClient, Fault> {
    let name = section.name.get_ref();
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(is_name_character) {
        let allowed = "letters, digits, and . _ - @ +";
        return fault(&section.name, format!("a client's name is of 1 to {MAX_NAME_CHARS} {allowed}"));
    }
    let key = match (&section.key, &section.inline_key) {
        (Some(file), None) => read_key(Path::new(file.get_ref())).or_else(|error| fault(file, error))?,
        (None, Some(digits)) => {
            PresharedKey::parse(digits.get_ref()).or_else(|error| fault(digits, format!("inline-key: {error}")))?
        }
        _ => {
            return fault(&section.name, format!("{name} needs one of key = \"FILE\" and inline-key = \"64 digits\""));
        }
    };
    let bytes = section.bytes_per_day.as_ref();
    let bytes_per_day = bytes.map(|size| match parse::byte_count(size.get_ref()) {
        Ok(0) => fault(size, "bytes-per-day: a client without bytes can't measure: leave it out of the file"),
        Ok(bytes) => Ok(bytes),
        Err(error) => fault(size, format!("bytes-per-day: {error}")),
    });
    let quota = Quota {
        bytes_per_day: bytes_per_day.transpose()?,
        measurements_per_hour: section.measurements_per_hour.map(NonZeroU32::get),
        denies_load: !section.load,
    };
    Ok(NamedClient { name: name.clone(), key, quota })
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || "._-@+".contains(character)
}

fn fault<T, V>(value: &Spanned<V>, problem: impl Into<String>) -> Result<T, Fault> {
    Err((Some(value.span()), problem.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<NamedClient>, String> {
        let read_key = |path: &Path| match path.to_str() {
            Some("b.key") => Ok(PresharedKey::from_bytes([11; 32])),
            _ => Err(format!("cannot read the key file {}", path.display())),
        };
        parse_clients(text, "clients.toml", read_key).map_err(|error| error.to_string())
    }

    #[test]
    fn clients_have_names_keys_and_quotas() {
        let text = format!(
            "[[client]]\nname = \"a\"\ninline-key = \"{}\"\nbytes-per-day = \"2gb\"\nmeasurements-per-hour = 12\nload = false\n\
             [[client]]\nname = \"b.example\"\nkey = \"b.key\"\n",
            "0a".repeat(32)
        );
        let [a, b] = [10, 11].map(|byte| PresharedKey::from_bytes([byte; 32]));
        let quota = Quota { bytes_per_day: Some(2 << 30), measurements_per_hour: Some(12), denies_load: true };
        let expected = vec![
            NamedClient { name: "a".to_owned(), key: a, quota },
            NamedClient { name: "b.example".to_owned(), key: b, quota: Quota::default() },
        ];
        assert_eq!(parse(&text), Ok(expected));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        let key = "0a".repeat(32);
        let client = |rest: &str| format!("[[client]]\nname = \"a\"\n{rest}");
        let inline = format!("inline-key = \"{key}\"\n");
        for (text, part) in [
            (String::new(), "clients.toml: names no client"),
            ("[[client]]\nname = 7\n".to_owned(), "clients.toml:2: "),
            (client(""), "clients.toml:2: a needs one of key"),
            (client(&format!("key = \"b.key\"\n{inline}")), "clients.toml:2: a needs one of key"),
            (client("inline-key = \"0a\"\n"), "clients.toml:3: inline-key: "),
            (client("key = \"gone.key\"\n"), "clients.toml:3: cannot read the key file gone.key"),
            (client(&format!("{inline}bytes-per-day = \"many\"\n")), "clients.toml:4: bytes-per-day: "),
            (client(&format!("{inline}bytes-per-day = \"0\"\n")), "clients.toml:4: bytes-per-day: a client without"),
            (client(&format!("{inline}measurements-per-hour = 0\n")), "clients.toml:4: "),
            (client(&format!("{inline}quota = 1\n")), "clients.toml:4: unknown field"),
            (client(&inline) + &client(&inline), "clients.toml:5: a is the name of two clients"),
            (client(&inline) + &client(&inline).replace("\"a\"", "\"b\""), "clients.toml:5: b has the key of another"),
            (client(&inline).replace("\"a\"", "\"a b\""), "clients.toml:2: a client's name is of 1 to 64"),
            (client(&inline).replace("\"a\"", "\"\\u001b[2J\""), "clients.toml:2: a client's name is of 1 to 64"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(part), "{error} for {text}");
        }
        let many: String = (0..257).map(|i| format!("[[client]]\nname = \"{i}\"\nkey = \"b.key\"\n")).collect();
        assert!(parse(&many).unwrap_err().contains("names 257 clients: 256 are the maximum"));
    }
}
