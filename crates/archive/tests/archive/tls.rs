//! Encrypted connections to PostgreSQL, with certificates that the test makes.

use crate::server::{Server, give_to_server};
use kumade_archive::{Archive, PostgresAddress, PostgresStore, Reader, Retention};
use kumade_units::{Span, Time};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Whom the server's certificate is for.
const NAME: &str = "db.example";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// An address of this host that no other test uses: a port would be somebody's.
fn own_address(last: u8) -> String {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    format!("127.{}.{middle}.{low}", (64 + 64 * last) | (high & 0x3f))
}

fn write_readable_by_server(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    give_to_server(path);
}

/// Has a certificate of this authority, and takes nobody by the network who does not encrypt.
fn encrypting_server(authority: &Authority, listen: &str) -> Option<Server> {
    Server::start_prepared(|directory| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![NAME.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
        let (certificate_file, key_file) = (directory.join("server.crt"), directory.join("server.key"));
        write_readable_by_server(&certificate_file, &certificate.pem());
        write_readable_by_server(&key_file, &key.serialize_pem());
        let rules = "local all all trust\nhostssl all all 127.0.0.0/8 trust\n";
        fs::write(directory.join("data/pg_hba.conf"), rules).unwrap();
        format!(
            "listen_addresses = '{listen}'\nssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
            certificate_file.display(),
            key_file.display()
        )
    })
}

/// Connects by this name, wherever that leads.
fn connect(listen: &str, name: &str, database: &str, authorities: Option<PathBuf>) -> Result<PostgresStore, String> {
    let text = format!("host={name} hostaddr={listen} user=kumade dbname={database}");
    let address: PostgresAddress = text.parse().unwrap();
    let address = authorities.into_iter().try_fold(address, PostgresAddress::with_authorities).unwrap();
    PostgresStore::open(&address).map_err(|error| error.to_string())
}

#[test]
fn only_a_server_with_a_certificate_that_counts_for_its_name_is_told_anything() {
    let (right, listen) = (authority("campus"), own_address(0));
    let Some(mut server) = encrypting_server(&right, &listen) else { return };
    let database = server.create_database();
    let file = |name: &str, text: &str| {
        let path = server.directory().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let right = file("right.pem", &right.pem());
    let empty = file("empty.pem", "nothing\n");
    let refusal = |name: &str, authorities| connect(&listen, name, &database, authorities).unwrap_err();

    // Another one, and one with the same name, as where somebody has made it again.
    for wrong in ["other", "campus"] {
        let unknown = refusal(NAME, Some(file("wrong.pem", &authority(wrong).pem())));
        assert!(unknown.contains("take the file of the authority that has signed it"), "{unknown}");
    }
    let other = refusal("other.example", Some(right.clone()));
    assert!(other.contains("other.example") && other.contains(NAME) && other.contains("subjectAltName"), "{other}");
    let empty = refusal(NAME, Some(empty));
    assert!(empty.contains("empty.pem") && empty.contains("no certificate"), "{empty}");
    let missing = refusal(NAME, Some(PathBuf::from("/nowhere/ca.pem")));
    assert!(missing.contains("/nowhere/ca.pem"), "{missing}");
    let plain = refusal(NAME, None);
    assert!(plain.contains("no encryption"), "{plain}");

    let mut store = connect(&listen, NAME, &database, Some(right)).unwrap();
    assert!(store.take_over(0, Span::ZERO, "test").unwrap().is_some());
    let reader = store.reader().unwrap();
    let mut archive = Archive::open(store, Retention::default(), Time::ZERO).unwrap();
    archive.put_host("a", "", "", "").unwrap();
    assert_eq!(Reader::new(reader).hosts().unwrap().len(), 1);
    // A connection that is made again is as safe.
    server.kill();
    server.restart_killed();
    assert!(archive.store().is_lost());
    let mut again = archive.store().reconnected().unwrap();
    assert!(matches!(again.renew(), Ok(true)));
}

#[test]
fn a_server_that_does_not_encrypt_is_told_nothing() {
    let (authority, listen) = (authority("campus"), own_address(1));
    let Some(server) = Server::start_prepared(|_| format!("listen_addresses = '{listen}'\n")) else { return };
    let file = server.directory().join("ca.pem");
    fs::write(&file, authority.pem()).unwrap();
    let database = server.create_database();
    assert!(connect(&listen, NAME, &database, None).is_ok());
    let refused = connect(&listen, NAME, &database, Some(file)).unwrap_err();
    assert!(refused.contains("ssl = on"), "{refused}");
}
