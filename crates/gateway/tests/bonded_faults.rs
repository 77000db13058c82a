//! The bonded plane on real paths that shrink, flap, or lead by way of routers, and among datagrams that are not its peer's.

use crate::sites;
use crate::tunnel;

use kumade_gateway::GatewayConfig;
use kumade_gateway::config::Plane;
use kumade_net::capture::Capture;
use kumade_net::interface;
use kumade_net::namespace::Namespace;
use kumade_netns_testbed::{eventually, in_namespaces, run_ip};
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_overlay_io::{BondedConfig, BondedPlane, OuterTransportConfig};
use sites::{Sites, is_up};
use std::fs;
use std::net::UdpSocket;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;
use tunnel::{PORT, config, directory, is_connected, keys, sent_on_each_path, separate_sites, start};

/// Sites with both planes, connected. Drop the planes before the sites.
fn connected() -> (Sites, BondedPlane, BondedPlane) {
    let sites = separate_sites();
    let keys = keys([1, 2]);
    let right = start(&sites.right, config(2, &keys, true));
    let left = start(&sites.left, config(1, &keys, true));
    assert!(eventually(|| is_connected(&left) && is_connected(&right)));
    (sites, left, right)
}

fn path_mtus(plane: &BondedPlane) -> Vec<Option<u32>> {
    plane.status().unwrap().remotes[0].paths.iter().map(|path| path.mtu).collect()
}

fn peer_on_first_path(plane: &BondedPlane) -> String {
    plane.status().unwrap().remotes[0].paths[0].address.unwrap().to_string()
}

#[test]
fn copied_and_altered_datagrams_deliver_nothing_and_move_nobody() {
    in_namespaces("copied_and_altered_datagrams_deliver_nothing_and_move_nobody", || {
        let (sites, left, right) = connected();
        let mut capture = sites.left.run(|| Capture::outgoing("path1").unwrap()).unwrap();
        sites.transfer(100_000);
        let mut datagrams = Vec::new();
        // Several that left as one are longer than a packet.
        let is_single = |packet: &[u8]| packet[9] == 17 && (29..=1500).contains(&packet.len());
        while let Some(packet) = capture.next(|_, packet| packet.to_vec()) {
            datagrams.extend(is_single(&packet).then(|| packet[28..].to_vec()));
        }
        assert!(!datagrams.is_empty());
        let refused = || {
            let node = right.status().unwrap().node;
            node.refused_datagrams + node.refused_handshakes
        };
        let (before, delivered) = (refused(), right.status().unwrap().node.delivered_packets);
        let stranger = sites.left.run(|| UdpSocket::bind("10.9.1.1:0").unwrap()).unwrap();
        for (number, datagram) in datagrams.iter_mut().enumerate() {
            stranger.send_to(datagram, ("10.9.1.2", PORT)).unwrap();
            let place = number % datagram.len();
            datagram[place] ^= 0x10;
            stranger.send_to(datagram, ("10.9.1.2", PORT)).unwrap();
        }
        assert!(eventually(|| refused() >= before + 2 * datagrams.len() as u64), "{before}, {}", refused());
        // But for what hosts may still have had to say.
        let copied = right.status().unwrap().node.delivered_packets - delivered;
        assert!(copied < datagrams.len() as u64 / 4, "{copied}");
        assert_eq!(peer_on_first_path(&right), format!("10.9.1.1:{PORT}"));
        sites.transfer(100_000);
        drop(left);
    });
}

#[test]
fn a_path_that_shrinks_during_a_transfer_is_noticed_by_both_ends() {
    in_namespaces("a_path_that_shrinks_during_a_transfer_is_noticed_by_both_ends", || {
        let (sites, left, right) = connected();
        // A veth pair checks the length of single packets only.
        for gateway in [&sites.left, &sites.right] {
            gateway.run(|| interface::disable_offloads("path1")).unwrap().unwrap();
        }
        // A veth device takes four bytes more than its MTU says, for a VLAN tag; its own kernel refuses to send them.
        let both = |first: RangeInclusive<u32>| {
            [&left, &right].iter().all(|plane| match path_mtus(plane)[..] {
                [Some(shrinking), other] => first.contains(&shrinking) && other == Some(1500),
                _ => false,
            })
        };
        assert!(eventually(|| both(1500..=1500)), "{:?}", path_mtus(&left));
        let device = || run_ip(&sites.left, &["-o", "link", "show", "tunnel"]).unwrap();
        assert!(device().contains("mtu 1446 "), "{}", device());
        // Left's long datagrams vanish there; right's own kernel refuses them.
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                run_ip(&sites.right, &["link", "set", "path1", "mtu", "1400"]).unwrap();
            });
            for _ in 0..4 {
                sites.transfer(1_000_000);
            }
        });
        // Who sends no long packets need not notice.
        let back = sites.b.run(|| UdpSocket::bind("10.2.0.2:0").unwrap()).unwrap();
        assert!(
            eventually(|| {
                sites.transfer(50_000);
                back.send_to(&[0; 1300], "10.1.0.2:9").unwrap();
                both(1400..=1404)
            }),
            "{:?}, {:?}",
            path_mtus(&left),
            path_mtus(&right)
        );
        let has_mtu = |mtu| device().contains(&format!("mtu {mtu} "));
        assert!(eventually(|| (1346..=1350).any(has_mtu)), "{}", device());
        sites.transfer(100_000);
        drop((left, right));
    });
}

#[test]
fn a_path_that_flaps_every_second_loses_no_byte_of_a_transfer() {
    in_namespaces("a_path_that_flaps_every_second_loses_no_byte_of_a_transfer", || {
        let (sites, left, right) = connected();
        thread::scope(|scope| {
            let flapping = scope.spawn(|| {
                for state in ["down", "up"].iter().cycle().take(6) {
                    run_ip(&sites.left, &["link", "set", "path2", state]).unwrap();
                    thread::sleep(Duration::from_secs(1));
                }
            });
            while !flapping.is_finished() {
                sites.transfer(200_000);
            }
        });
        assert!(is_up(&sites.left, "path2"));
        let before = sent_on_each_path(&left);
        assert!(eventually(|| {
            sites.transfer(200_000);
            sent_on_each_path(&left)[1] > before[1] + 100
        }));
        drop((left, right));
    });
}

#[test]
fn a_gateway_whose_address_changes_is_followed() {
    in_namespaces("a_gateway_whose_address_changes_is_followed", || {
        let (sites, left, right) = connected();
        run_ip(&sites.left, &["addr", "del", "10.9.1.1/24", "dev", "path1"]).unwrap();
        run_ip(&sites.left, &["addr", "add", "10.9.1.3/24", "dev", "path1"]).unwrap();
        assert!(eventually(|| {
            sites.transfer(20_000);
            peer_on_first_path(&right) == format!("10.9.1.3:{PORT}")
        }));
        drop(left);
    });
}

/// The right gateway's addresses are behind a router of each provider, and the left one's default route is by the first.
fn behind_routers(sites: &Sites) {
    for number in [1, 2] {
        let address = format!("10.8.{number}.2");
        run_ip(&sites.right, &["addr", "add", &format!("{address}/32"), "dev", "lo"]).unwrap();
    }
    // As a router would, it tells its hardware address for its own interface only.
    sites.right.run(|| fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1")).unwrap().unwrap();
    // Strict: the source of what arrives by a path has to be reached by it.
    sites.left.run(|| fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1")).unwrap().unwrap();
    sites.right.run(|| fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "2")).unwrap().unwrap();
    run_ip(&sites.left, &["route", "add", "default", "via", "10.9.1.2"]).unwrap();
}

fn left_by_gateways(keys: &[PrivateKey; 2]) -> BondedConfig {
    let text = format!(
        r#"
[gateway]
name = "left"
plane = "bonded"

[bonded]
key = "unused"
device = "tunnel"
choice = "weighted"

[[path]]
name = "one"
interface = "path1"
gateways = ["10.9.1.2"]

[[path]]
name = "two"
interface = "path2"
gateways = ["10.9.2.2", "fd09:2::2"]

[[remote]]
name = "right"
networks = ["10.2.0.0/24", "fd02::/64"]
public-key = "{}"
addresses = ["10.8.1.2", "10.8.2.2"]
"#,
        keys[1].public_key()
    );
    let config = GatewayConfig::from_toml(&text, "test.toml", &["path1", "path2"].map(String::from)).unwrap();
    let Plane::Bonded(bonded) = &config.plane else { panic!("another plane") };
    kumade_gateway::bonded::plane_config(&config, bonded, keys[0].clone(), vec![PresharedKey::default()], directory())
}

fn routing(inside: &Namespace) -> String {
    let show = |arguments: &[&str]| run_ip(inside, arguments).unwrap();
    ["-4", "-6"].map(|family| show(&[family, "rule"]) + &show(&[family, "route", "show", "table", "all"])).concat()
}

#[test]
fn datagrams_leave_by_the_next_hop_of_their_path_whatever_the_default_route_is() {
    in_namespaces("datagrams_leave_by_the_next_hop_of_their_path_whatever_the_default_route_is", || {
        let sites = separate_sites();
        behind_routers(&sites);
        let keys = keys([1, 2]);
        let mut answering = config(2, &keys, false);
        // It answers from the address that was written to only where that is its own on the path.
        if let OuterTransportConfig::Udp(datagrams) = &mut answering.transports {
            for (place, (binding, _)) in datagrams.paths.iter_mut().enumerate() {
                binding.source = Some(format!("10.8.{}.2", place + 1).parse().unwrap());
            }
        }
        let right = start(&sites.right, answering);
        let left = start(&sites.left, left_by_gateways(&keys));
        let during = routing(&sites.left);
        for part in [
            "fwmark 0x6b41 lookup 27457",
            "default via 10.9.1.2 dev path1 table 27457",
            "default via 10.9.2.2 dev path2 table 27458",
            "default via fd09:2::2 dev path2 table 27458",
        ] {
            assert!(during.contains(part), "{part}: {during}");
        }
        assert!(eventually(|| is_connected(&left) && is_connected(&right)));
        assert!(eventually(|| {
            sites.transfer(500_000);
            sent_on_each_path(&left).iter().all(|packets| *packets > 300)
        }));
        // The default route goes with the first provider; what the far end sends by the second one still comes in.
        let before = sent_on_each_path(&left)[1];
        run_ip(&sites.left, &["link", "set", "path1", "down"]).unwrap();
        assert!(eventually(|| {
            sites.transfer(200_000);
            sent_on_each_path(&left)[1] > before + 100
        }));
        run_ip(&sites.left, &["link", "set", "path1", "up"]).unwrap();
        // The kernel drops the routes of an interface that goes down.
        run_ip(&sites.left, &["link", "set", "path2", "down"]).unwrap();
        run_ip(&sites.left, &["link", "set", "path2", "up"]).unwrap();
        let is_back = || routing(&sites.left).contains("default via 10.9.2.2 dev path2 table 27458");
        assert!(eventually(is_back));
        drop((left, right));
        let after = routing(&sites.left);
        assert!(!after.contains("lookup 274") && !after.contains("table 274"), "{after}");
    });
}
