use super::tls::Tls;
use kumade_files::{SecretFileError, read_secret};
use postgres::Config;
use postgres::config::{Host, SslMode};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Where a database is, and as whom it is used. The password is none of it: it is read from a file, whenever a connection is made.
#[derive(Clone)]
pub struct PostgresAddress {
    /// What it was read from.
    text: String,
    config: Config,
    password_file: Option<PathBuf>,
    authorities: Option<PathBuf>,
}

/// Why a text is no address of a database.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PostgresAddressError {
    /// It cannot be read.
    #[error("{cause}: write it as postgresql://USER@HOST/DATABASE")]
    Malformed {
        /// Why not.
        cause: String,
    },
    /// It has a password.
    #[error("a password does not belong into the address: write it into a file that only this user can read")]
    HasPassword,
    /// It says how to encrypt, which it cannot.
    #[error(
        "leave `sslmode` and `sslrootcert` out: a connection is encrypted, and the server's certificate checked in full, where the file of \
         its authority is named"
    )]
    NamesTls,
    /// A local socket is not encrypted.
    #[error(
        "a local socket is not encrypted: leave the file of the server's authority out, or reach it by a host's name"
    )]
    LocalSocket,
}

/// Longer than any file of passwords.
const MAX_PASSWORDS_BYTES: u64 = 1 << 20;
/// A server that does not answer is given up after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that has vanished is noticed after this.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
const USER_TIMEOUT: Duration = Duration::from_secs(20);

impl PostgresAddress {
    /// With the file that has the password, alone on its first line. Without it, the file that `PGPASSFILE` names is looked into, as other
    /// programs of PostgreSQL do. Where all users can read it, the first is an error, and the second is not used.
    pub fn with_password_file(mut self, file: PathBuf) -> Self {
        self.password_file = Some(file);
        self
    }

    /// With the file of the authorities, in PEM, of which one has to have signed the server's certificate; that has to be for the host of the
    /// address. Nothing is said in the clear then. The file is read whenever a connection is made.
    ///
    /// # Errors
    /// The address is that of a local socket.
    pub fn with_authorities(mut self, file: PathBuf) -> Result<Self, PostgresAddressError> {
        if self.config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_))) {
            return Err(PostgresAddressError::LocalSocket);
        }
        self.config.ssl_mode(SslMode::Require);
        self.authorities = Some(file);
        Ok(self)
    }

    /// What encrypts; none where nothing is to be.
    pub(super) fn tls(&self) -> io::Result<Option<Tls>> {
        self.authorities.as_deref().map(Tls::from_authorities).transpose()
    }

    /// To connect by, with the password if one is known.
    ///
    /// # Errors
    /// The file of the password cannot be read, or others can.
    pub(super) fn connection(&self) -> Result<Config, SecretFileError> {
        let mut config = self.config.clone();
        let password = match (&self.password_file, std::env::var_os("PGPASSFILE")) {
            (Some(file), _) => read_passwords(file)?.lines().next().map(str::to_owned),
            (None, Some(file)) => match read_passwords(file.as_ref()) {
                Ok(text) => self.find_password(&text),
                // Then there is none, as for other programs.
                Err(error) => {
                    tracing::warn!("PGPASSFILE is not used: {error}");
                    None
                }
            },
            (None, None) => None,
        };
        password.iter().for_each(|password| _ = config.password(password));
        Ok(config)
    }

    /// What errors call the archive.
    pub(super) fn name(&self) -> String {
        format!("the database {}", self.database())
    }

    fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or("kumade")
    }

    /// In lines of `HOST:PORT:DATABASE:USER:PASSWORD`, where `*` is any, and a backslash takes what follows as it is.
    fn find_password(&self, text: &str) -> Option<String> {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            _ => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432).to_string();
        let wanted = [host.as_str(), &port, self.database(), self.config.get_user().unwrap_or_default()];
        text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let fields = split_fields(line);
            let [.., password] = &fields[..] else { return None };
            let fits = fields.len() == 5 && wanted.iter().zip(&fields).all(|(own, field)| field == "*" || field == own);
            fits.then(|| password.clone())
        })
    }
}

fn read_passwords(file: &Path) -> Result<String, SecretFileError> {
    read_secret(file, "password in", MAX_PASSWORDS_BYTES)
}

fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, fields.len()) {
            (':', ..5) => fields.push(String::new()),
            ('\\', _) => fields.last_mut().into_iter().for_each(|field| field.extend(characters.next())),
            _ => fields.last_mut().into_iter().for_each(|field| field.push(character)),
        }
    }
    fields
}

impl FromStr for PostgresAddress {
    type Err = PostgresAddressError;

    /// Of an address as `postgresql://USER@HOST/DATABASE`, or a string of libpq's other kind.
    fn from_str(text: &str) -> Result<Self, PostgresAddressError> {
        // The cause alone: the text might have a password.
        let malformed = |error: postgres::Error| {
            let names_tls = ["sslmode", "sslrootcert"].iter().any(|name| text.contains(name));
            if names_tls {
                PostgresAddressError::NamesTls
            } else {
                PostgresAddressError::Malformed { cause: error.to_string() }
            }
        };
        let mut config: Config = text.parse().map_err(malformed)?;
        if config.get_password().is_some() {
            return Err(PostgresAddressError::HasPassword);
        }
        if config.get_ssl_mode() == SslMode::Require {
            return Err(PostgresAddressError::NamesTls);
        }
        config.application_name("kumade").connect_timeout(CONNECT_TIMEOUT);
        config.keepalives_idle(KEEPALIVE_IDLE).keepalives_interval(KEEPALIVE_INTERVAL);
        config.keepalives_retries(KEEPALIVE_RETRIES).tcp_user_timeout(USER_TIMEOUT);
        Ok(PostgresAddress { text: text.to_owned(), config, password_file: None, authorities: None })
    }
}

impl PartialEq for PostgresAddress {
    fn eq(&self, other: &Self) -> bool {
        let parts = |address: &Self| (address.text.clone(), address.password_file.clone(), address.authorities.clone());
        parts(self) == parts(other)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresAddress").field("database", &self.database()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_password_is_found_by_host_port_database_and_user() {
        let address: PostgresAddress = "postgresql://me@db.example/kumade".parse().unwrap();
        let file = "# a comment\nother:5432:*:*:no\ndb.example:5433:*:*:no\ndb.example:*:kumade:me:a\\:b\\\\c:d\n*:*:*:*:later\n";
        assert_eq!(address.find_password(file).as_deref(), Some("a:b\\c:d"));
        let local: PostgresAddress = "host=/run/postgresql user=me".parse().unwrap();
        assert_eq!(local.find_password("localhost:5432:me:me:found").as_deref(), Some("found"));
        assert_eq!(local.find_password("broken\n::::"), None);
    }

    #[test]
    fn a_password_that_others_can_read_is_not_used() {
        let file = std::env::temp_dir().join(format!("kumade-password-{}", std::process::id()));
        let address: PostgresAddress = "postgresql://me@db.example/kumade".parse().unwrap();
        let address = address.with_password_file(file.clone());
        let read = |mode| {
            std::fs::write(&file, "hushed\n").unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            address.connection().map(|config| config.get_password() == Some(b"hushed"))
        };
        assert!(read(0o600).unwrap());
        let error = read(0o644).unwrap_err().to_string();
        assert!(error.starts_with("all users can read") && error.contains("the password in"), "{error}");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn an_address_has_no_password_and_does_not_say_how_to_encrypt() {
        let fault = |text: &str| text.parse::<PostgresAddress>().unwrap_err().to_string();
        assert!(fault("postgresql://me:secret@db.example/kumade").contains("does not belong"));
        for mode in ["sslmode=require", "sslmode=verify-full", "sslrootcert=ca.pem"] {
            assert!(fault(&format!("postgresql://me@db.example/kumade?{mode}")).contains("leave `sslmode`"), "{mode}");
        }
        let malformed = fault("postgresql://me:secret@db.example:x/kumade");
        assert!(malformed.contains("postgresql://USER@HOST/DATABASE") && !malformed.contains("secret"), "{malformed}");
        let local: PostgresAddress = "postgresql://me@%2Frun%2Fpostgresql/kumade".parse().unwrap();
        let local = local.with_authorities(PathBuf::from("ca.pem")).unwrap_err().to_string();
        assert!(local.contains("local socket"), "{local}");
    }
}
