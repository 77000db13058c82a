//! A claim holds in its network namespace, whoever claims there, and in no other.

use kumade_daemon::{NameLockError, NamespaceLock};
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::in_namespaces;

#[test]
fn a_claim_holds_in_its_network_namespace() {
    in_namespaces("a_claim_holds_in_its_network_namespace", || {
        let (here, there) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let claim = |inside: &Namespace| inside.run(|| NamespaceLock::new("interface-7")).unwrap();
        let first = claim(&here).unwrap();
        // However often it is asked for.
        for _ in 0..300 {
            let error = claim(&here).unwrap_err();
            assert!(matches!(&error, NameLockError::Taken { .. }), "{error}");
        }
        let second = claim(&there).unwrap();
        drop(first);
        drop(claim(&here).unwrap());
        drop(second);
    });
}

#[test]
fn the_owner_is_named() {
    let name = format!("test-{}", std::process::id());
    let _claim = NamespaceLock::new(&name).unwrap();
    let Err(NameLockError::Taken { process, .. }) = NamespaceLock::new(&name) else { panic!("claimed twice") };
    assert_eq!(process, std::process::id().to_string());
}
