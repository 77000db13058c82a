//! `kumade key`: makes the keys by which gateways know each other, those that clients and servers share, and the tokens of monitors.

use crate::output::StandardOutput;
#[cfg(target_os = "linux")]
use crate::output::note;
use anyhow::{Context, anyhow};
#[cfg(target_os = "linux")]
use clap::ValueEnum;
use clap::{Args, Subcommand};
#[cfg(target_os = "linux")]
use kumade_monitor::access::{AccessClass, TokenHash};
#[cfg(target_os = "linux")]
use kumade_net::privileges;
use kumade_noise_session::{KeyError, PresharedKey, PrivateKey};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make keys for gateways, keys that a client and a server share, and tokens for the page of a monitor
///
/// A gateway has a private key, and tells its peers the public one:
///
/// Example: kumade key new gateway.key (prints the public key); kumade key public < gateway.key
#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a private key in a file that only its owner may read, and print its public key
    New {
        /// The file, which must not exist yet
        file: PathBuf,
    },
    /// Make a private key, of 64 hexadecimal digits
    Private {
        #[command(flatten)]
        output: KeyOutput,
    },
    /// Read a private key from standard input and print its public key
    Public,
    #[cfg(target_os = "linux")]
    /// Make a token for the page of a monitor, and print what its configuration file is to have
    ///
    /// The file knows the token by its hash alone. Standard output has what is appended to the file; the token itself is
    /// shown once, on the terminal (standard error), unless a file is made for it.
    Token {
        /// Of whom the audit tells
        #[arg(value_name = "NAME", value_parser = parse_token_name)]
        name: String,
        /// What it allows: to see, also to have paths measured now, also to see who has done what
        #[arg(long, value_enum, default_value_t = TokenClass::Read)]
        class: TokenClass,
        /// File that is made for the token, which only its owner may read [default: standard error]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    #[cfg(not(target_os = "linux"))]
    /// On Linux only: make a token for the page of a monitor
    Token(crate::absent::AbsentArgs),
    /// Make a key that both sides have: a second one for gateways, or the one of `kumade serve --key`
    Preshared {
        #[command(flatten)]
        output: KeyOutput,
    },
}

#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TokenClass {
    Read,
    Write,
    Admin,
}

#[derive(Debug, Args)]
struct KeyOutput {
    /// File that is made for the key, which only its owner may read [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const MAKE_PRIVATE_KEY: &str = "`kumade key private --output FILE`";
/// Longer than any key file.
const MAX_INPUT_BYTES: u64 = 4096;
/// Longer than any file of clients with their keys.
#[cfg(target_os = "linux")]
const MAX_CLIENTS_BYTES: u64 = 1 << 20;

/// Runs the command.
///
/// # Errors
/// If the file is there already or cannot be written, or the input is no private key.
pub fn run(args: &KeyArgs) -> anyhow::Result<ExitCode> {
    #[cfg(target_os = "linux")]
    privileges::hide_memory()?;
    match &args.command {
        KeyCommand::New { file } => {
            let key = PrivateKey::from_bytes(random_bytes()?);
            write_secret(Some(file), &key.to_hex())?;
            writeln!(StandardOutput, "{}", key.public_key())?;
        }
        KeyCommand::Private { output } => {
            let key = PrivateKey::from_bytes(random_bytes()?);
            write_secret(output.output.as_deref(), &key.to_hex())?;
        }
        KeyCommand::Preshared { output } => {
            let key = PresharedKey::from_bytes(random_bytes()?);
            write_secret(output.output.as_deref(), &key.to_hex())?;
        }
        #[cfg(target_os = "linux")]
        KeyCommand::Token { name, class, output } => make_token(name, *class, output.as_deref())?,
        #[cfg(not(target_os = "linux"))]
        KeyCommand::Token(_) => return Ok(crate::absent::refuse_named("key token")),
        KeyCommand::Public => {
            let mut text = String::new();
            let input = io::stdin().lock().take(MAX_INPUT_BYTES);
            { input }.read_to_string(&mut text).context("cannot read a private key from standard input")?;
            let key = PrivateKey::parse(&text).map_err(|error| {
                anyhow!("standard input is no private key: {error}; make one with {MAKE_PRIVATE_KEY}")
            })?;
            writeln!(StandardOutput, "{}", key.public_key())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(target_os = "linux")]
fn make_token(name: &str, class: TokenClass, output: Option<&Path>) -> anyhow::Result<()> {
    let token = PresharedKey::from_bytes(random_bytes()?).to_hex();
    match output {
        Some(path) => write_secret(Some(path), &token)?,
        None => note!("the token, which is shown this once: {}", token.as_str()),
    }
    let class = match class {
        TokenClass::Read => AccessClass::Read,
        TokenClass::Write => AccessClass::Write,
        TokenClass::Admin => AccessClass::Admin,
    };
    let (class, hash) = (class.name(), TokenHash::from_token(&token));
    writeln!(StandardOutput, "[[access.token]]\nname = {name:?}\nclass = {class:?}\nhash = \"{hash}\"")?;
    Ok(())
}

/// Of letters that mean nothing in TOML, nor to a terminal.
#[cfg(target_os = "linux")]
fn parse_token_name(text: &str) -> Result<String, String> {
    let is_name =
        !text.trim().is_empty() && text.chars().all(|letter| letter.is_alphanumeric() || " .-_@".contains(letter));
    is_name.then(|| text.trim().to_owned()).ok_or_else(|| "a name has letters, digits, spaces and . - _ @".to_owned())
}

fn random_bytes() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the system gives no random bytes")?;
    Ok(bytes)
}

fn write_secret(to: Option<&Path>, digits: &str) -> anyhow::Result<()> {
    let Some(path) = to else {
        writeln!(StandardOutput, "{digits}")?;
        return Ok(());
    };
    let name = || format!("cannot make the key file {}", path.display());
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = options.write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            anyhow!("{}: the file exists, and no key is overwritten: choose another name, or remove it first", name())
        }
        _ => anyhow!(error).context(name()),
    })?;
    let written = writeln!(file, "{digits}").and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key is of no use, and its name would be taken.
        let _ = fs::remove_file(path);
    }
    written.with_context(name)
}

/// Reads the file of a key that both sides have.
///
/// # Errors
/// It cannot be read, or has no key.
pub fn read_preshared_key(path: &Path) -> anyhow::Result<PresharedKey> {
    read_key_file(path, PresharedKey::parse, "`kumade key preshared --output FILE`")
}

/// Reads the file of a private key.
///
/// # Errors
/// It cannot be read, or has no key.
#[cfg(target_os = "linux")]
pub fn read_private_key(path: &Path) -> anyhow::Result<PrivateKey> {
    read_key_file(path, PrivateKey::parse, MAKE_PRIVATE_KEY)
}

/// Reads the file of a server's clients, in which keys may stand: as a key file.
///
/// # Errors
/// It cannot be read.
#[cfg(target_os = "linux")]
pub fn read_clients_file(path: &Path) -> anyhow::Result<String> {
    read_secret(path, "file of clients", MAX_CLIENTS_BYTES)
}

/// `make` is the command that makes such a key.
fn read_key_file<K>(path: &Path, parse: fn(&str) -> Result<K, KeyError>, make: &str) -> anyhow::Result<K> {
    let text = read_secret(path, "key file", MAX_INPUT_BYTES)?;
    parse(&text).map_err(|error| anyhow!("the key file {} is invalid: {error}; make one with {make}", path.display()))
}

/// Reads a file with secrets, which not everybody may read, and only its user may write. From then on, the memory of this
/// process is hidden, too.
fn read_secret(path: &Path, kind: &'static str, max_bytes: u64) -> anyhow::Result<String> {
    #[cfg(target_os = "linux")]
    privileges::hide_memory()?;
    Ok(kumade_files::read_secret(path, kind, max_bytes)?)
}
