//! What gateways carry on this machine, beside their targets: `cargo run --release -p kumade-gateway --example bench`, as root, on a
//! machine that does nothing else; it takes a quarter of an hour. `-- speed`, `-- forged` or `-- flows` (the bonded plane), `-- tunnels`
//! (the same over TCP) or `-- direct` and `-- sessions` (the direct plane) measures only that, `-- speed 10` repeats it so often, and
//! `-- speed 10 "one path"` leaves out candidates with other names. `-- peers target/release/kumade`
//! has a thousand peers connect to that program as a tunnel and as a gateway, and `-- hostile target/release/kumade` has peers of a
//! tunnel do what they like; `-- hostile PATH "short packets" 3` measures only attacks with such names, in three rounds.
//! `-- idle target/release/kumade` shows what tunnels, gateways, links and servers of that program take while no packets come, and
//! how long the first ones take then, beside wireguard-go, boringtun and OpenVPN.
//!
//! Hosts, gateways and whoever else takes part are all here, in network namespaces, and share its cores. So figures are
//! compared with those of the same run: wireguard-go, `wg` and OpenVPN are used where they are
//! installed (`apt install wireguard-go wireguard-tools openvpn`).

mod direct;
mod flows;
mod forged;
mod hostile;
mod idle;
mod lines;
mod outcome;
mod peers;
mod process;
mod sessions;
mod speed;
mod start;
mod stream;

use outcome::Outcome;
use std::env;

fn main() -> Outcome<()> {
    kumade_net::namespace::enter_user_namespace_if_needed()?;
    let wanted = env::args().nth(1);
    if wanted.as_deref() == Some("peers") {
        return peers::measure(&env::args().nth(2).ok_or("give the path of kumade")?);
    }
    if wanted.as_deref() == Some("idle") {
        return idle::measure(&env::args().nth(2).ok_or("give the path of kumade")?);
    }
    if wanted.as_deref() == Some("hostile") {
        let program = env::args().nth(2).ok_or("give the path of kumade")?;
        let rounds = env::args().nth(4).map_or(Ok(1), |text| text.parse())?;
        return hostile::measure(&program, env::args().nth(3).as_deref(), rounds);
    }
    let repeats = env::args().nth(2).map_or(Ok(5), |text| text.parse())?;
    let named = env::args().nth(3).unwrap_or_default();
    let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    if is_wanted("speed") {
        speed::gateways(repeats, &named);
    }
    if is_wanted("tunnels") {
        speed::tunnels(repeats, &named);
    }
    if wanted.as_deref() == Some("start") {
        start::measure(repeats)?;
    }
    if is_wanted("forged") {
        forged::measure(repeats)?;
    }
    if is_wanted("flows") {
        flows::measure()?;
    }
    if is_wanted("direct") {
        direct::measure(repeats)?;
    }
    if is_wanted("sessions") {
        sessions::measure()?;
    }
    Ok(())
}
