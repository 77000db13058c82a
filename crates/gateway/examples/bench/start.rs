//! How one TCP connection through a gateway's only path begins, beside one without a tunnel: what arrives in each twentieth of a second, and what
//! the path is believed to carry then.

use crate::lines::Lines;
use crate::outcome::Outcome;
use crate::speed::open_plain;
use crate::stream::Stream;
use kumade_overlay_io::BondedPlane;
use std::thread;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(50);
const STEPS: u32 = 50;

/// So often, in turn.
pub fn measure(repeats: usize) -> Outcome<()> {
    for _ in 0..repeats {
        let plain = Lines::new(2)?;
        let _plain = open_plain(&plain)?;
        trace("no tunnel", &plain, None)?;
        let bonded = Lines::new(2)?;
        let planes = bonded.bond(1)?;
        thread::sleep(Duration::from_secs(1));
        trace("kumade, one path", &bonded, Some(&planes[0]))?;
    }
    Ok(())
}

fn trace(name: &str, lines: &Lines, plane: Option<&BondedPlane>) -> Outcome<()> {
    println!("{name}: ms, Gbit/s; of the path: rate and pace, Gbit/s, its queue, packets lost, dropped by the queue");
    let stream = Stream::start(&lines.hosts[0], &lines.hosts[1], "10.2.0.2", None)?;
    let begin = Instant::now();
    let (mut before, mut at) = (0, Duration::ZERO);
    for step in 1..=STEPS {
        thread::sleep((STEP * step).saturating_sub(begin.elapsed()));
        let (bytes, time) = (stream.received_bytes(), begin.elapsed());
        let rate = (bytes - before) as f64 * 8e-9 / (time - at).as_secs_f64();
        (before, at) = (bytes, time);
        let mut line = format!("{:5} {rate:6.2}", time.as_millis());
        if let Some(status) = plane.map(BondedPlane::status).transpose()?
            && let Some(remote) = status.remotes.first()
            && let Some(path) = remote.paths.first()
        {
            let path = &path.status;
            let (rate, pace) = (path.rate.as_f64() / 1e9, path.pacing_rate.as_f64() / 1e9);
            line += &format!(
                " {rate:6.2} {pace:6.2} {} {} {}",
                path.queue_delay, path.lost_packets, remote.dropped_packets
            );
        }
        println!("{line}");
    }
    Ok(())
}
