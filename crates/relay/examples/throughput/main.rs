//! What one connection gets through both ends over loopback, beside the same without them and through `ssh -L`, in turns:
//! `cargo run --release -p kumade-relay --example throughput [SECONDS [ROUNDS]]`

mod ssh;

use kumade_net::SocketBinding;
use kumade_net::tcp::RtoLimits;
use kumade_noise_session::{PresharedKey, PrivateKey};
use kumade_relay::{AllowedTargets, Forward, Relay, RelayConfig, RelayRole};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let number = |place, default| std::env::args().nth(place).map_or(default, |text| text.parse().expect("a number"));
    let (seconds, rounds) = (number(1, 5), number(2, 3));
    let local: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let sink = TcpListener::bind(local).expect("a port");
    let target = sink.local_addr().expect("its address");
    let [near_key, far_key] = [1, 2].map(|number| PrivateKey::from_bytes([number; 32]));
    let start = |identity: &PrivateKey, role| {
        let config =
            RelayConfig { identity: identity.clone(), psk: PresharedKey::default(), rto: RtoLimits::default(), role };
        Relay::start(config, Default::default()).expect("a relay")
    };
    let allowed = vec![target.to_string().parse::<AllowedTargets>().expect("a target")];
    let far = start(&far_key, RelayRole::Far { listen: Some(local), peers: vec![near_key.public_key()], allowed });
    let forwards = vec![Forward { listen: local, target: target.to_string().parse().expect("a target") }];
    let address = far.addresses().expect("it runs")[0];
    let (peer, binding, congestion_control, redirect) = (far_key.public_key(), SocketBinding::default(), None, None);
    let host = address.into();
    let near = start(&near_key, RelayRole::Near { host, peer, binding, congestion_control, forwards, redirect });
    let through = near.addresses().expect("it runs")[0];
    let ssh = ssh::Forwarding::start(target);
    if let Err(error) = &ssh {
        println!("ssh -L: not measured: {error}");
    }
    let ssh = ssh.ok();
    let beside = ssh.as_ref().map(|ssh| ("ssh -L", ssh.address));
    for _ in 0..rounds {
        for (name, address) in [("plain", target), ("relay", through)].into_iter().chain(beside) {
            println!("{name}: {:.2} Gbit/s", transfer(&sink, address, Duration::from_secs(seconds)));
        }
    }
}

/// In Gbit/s.
fn transfer(sink: &TcpListener, address: SocketAddr, time: Duration) -> f64 {
    let begun = Instant::now();
    let received = thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = TcpStream::connect(address).expect("a connection");
            let data = vec![7; 1 << 17];
            while begun.elapsed() < time {
                stream.write_all(&data).expect("it takes bytes");
            }
        });
        let mut stream = sink.accept().expect("a connection").0;
        let mut buffer = vec![0; 1 << 17];
        let mut received = 0;
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            received += count;
        }
        received
    });
    received as f64 * 8.0 / begun.elapsed().as_secs_f64() / 1e9
}
