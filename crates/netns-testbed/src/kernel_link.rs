//! The kernel's counterpart of an emulated link: what `tc` and `nft` are told.

use kumade_link::queue::{Discipline, QueueConfig, QueueLimit, RedConfig};
use kumade_link::{Framing, LinkConfig, Loss, Medium, TokenBucket};
use kumade_units::{Rate, Span};

/// HTB's bucket, which is what passes at once after a pause. 800 bytes at 100 Mbit/s come closest to a link.
const BUCKET_TIME: Span = Span::from_micros(64);
const MIN_BURST_BYTES: u64 = 800;
/// Of a full packet in its Ethernet frame, and the Ethernet header, which size tables leave out.
const FRAME_BYTES: u64 = 1514;
pub(crate) const ETHERNET_HEADER_BYTES: u64 = 14;

/// The commands that give `device` the rate, the queue, the shaper and the policer of this link. The kernel counts IP bytes.
///
/// # Errors
/// What of the link the kernel cannot do, or not as the link does. The delay is left out: there is none.
pub(crate) fn tc_commands(device: &str, link: &LinkConfig, queue: Option<&QueueConfig>) -> Result<Vec<String>, String> {
    let rate = link.rate.ok_or("a link without a rate needs no shaper")?;
    let is_plain = link.loss == Loss::None
        && link.reordering.probability == 0.0
        && link.duplication == 0.0
        && link.corruption == 0.0
        && link.framing == Framing::default()
        && link.jitter.amount == Span::ZERO;
    if !is_plain {
        return Err("the kernel's shapers neither lose nor reorder, duplicate, corrupt or delay packets at random, and this one counts IP bytes".into());
    }
    let root = shaper_root(device);
    let mut commands = match &link.medium {
        None => htb_commands(device, &root, rate, htb_burst_bytes(rate), &leaf_discipline(link, queue, rate)?),
        Some(Medium::TokenBucket(bucket)) if queue.is_none() => {
            vec![tbf_command(&root, *bucket, Some((rate, FRAME_BYTES)), link.queue_bytes)]
        }
        Some(_) => return Err("of all media, the kernel has the token bucket with tail drop".into()),
    };
    commands.extend(link.policer.map(|policer| policer_commands(device, policer)).into_iter().flatten());
    Ok(commands)
}

/// The beginning of the command that gives `device` a shaper, which counts IP bytes.
pub fn shaper_root(device: &str) -> String {
    format!("tc qdisc add dev {device} root handle 1: stab overhead -{ETHERNET_HEADER_BYTES}")
}

/// The bucket of HTB, in bytes, that comes closest to a link: what passes at once after a pause.
pub fn htb_burst_bytes(rate: Rate) -> u64 {
    rate.bytes_in(BUCKET_TIME).max(MIN_BURST_BYTES)
}

/// The bucket that nftables makes of a burst: what passes in a second counts as well.
pub(crate) fn nftables_burst_bytes(policer: TokenBucket) -> u64 {
    policer.rate.bytes_in(Span::from_secs(1)) + policer.burst_bytes
}

/// The commands that give `device` this rate in IP packets of the MTU, where bursts of them are one packet of the kernel. Its length
/// then counts the header of each segment, but a size table would not: so the rate allows for Ethernet headers.
pub(crate) fn offload_htb_commands(device: &str, rate: Rate, queue_bytes: u64, mtu: u16) -> Vec<String> {
    let root = format!("tc qdisc add dev {device} root handle 1:");
    let rate = frame_rate(rate, mtu);
    htb_commands(device, &root, rate, htb_burst_bytes(rate), &format!("bfifo limit {queue_bytes}"))
}

/// The command that changes that rate, as above, and how much passes at once after the time `late`: a kernel that serves the
/// shaper later than that loses what should have passed meanwhile.
pub(crate) fn change_htb_command(device: &str, rate: Rate, mtu: u16, late: Span) -> String {
    let rate = frame_rate(rate, mtu);
    htb_class_command("change", device, ["1:", "1:1"], [rate; 2], rate.bytes_in(late))
}

/// The rate in Ethernet frames.
fn frame_rate(rate: Rate, mtu: u16) -> Rate {
    Rate::from_f64(rate.as_f64() * (f64::from(mtu) + ETHERNET_HEADER_BYTES as f64) / f64::from(mtu))
}

/// The commands that give `device` HTB of this rate and bucket, before this queue (in the words of `tc`), where `root` begins the first one.
pub fn htb_commands(device: &str, root: &str, rate: Rate, burst_bytes: u64, leaf: &str) -> Vec<String> {
    vec![
        format!("{root} htb default 1"),
        htb_class_command("add", device, ["1:", "1:1"], [rate; 2], burst_bytes),
        format!("tc qdisc add dev {device} parent 1:1 {leaf}"),
    ]
}

/// The command that adds or changes (`verb`) a class of HTB below its parent: what it has in any case and may have; how much passes at once.
pub fn htb_class_command(
    verb: &str,
    device: &str,
    [parent, class]: [&str; 2],
    rates: [Rate; 2],
    burst_bytes: u64,
) -> String {
    let [rate, most] = rates.map(Rate::bits_per_second);
    format!(
        "tc class {verb} dev {device} parent {parent} classid {class} htb rate {rate}bit ceil {most}bit burst {burst_bytes} \
         cburst {burst_bytes} quantum {FRAME_BYTES}"
    )
}

fn leaf_discipline(link: &LinkConfig, queue: Option<&QueueConfig>, rate: Rate) -> Result<String, String> {
    let Some(queue) = queue else { return Ok(format!("bfifo limit {}", link.queue_bytes)) };
    match (&queue.discipline, queue.limit) {
        (Discipline::TailDrop(_), QueueLimit::Bytes(bytes)) => Ok(format!("bfifo limit {bytes}")),
        (Discipline::TailDrop(_), QueueLimit::Packets(packets)) => Ok(format!("pfifo limit {packets}")),
        (Discipline::Red(config), QueueLimit::Bytes(bytes)) => Ok(red_arguments(config, bytes, rate)),
        _ => Err("of the disciplines, this reference has tail drop and RED".into()),
    }
}

/// The average is taken as `tc` advises.
fn red_arguments(config: &RedConfig, limit: u64, rate: Rate) -> String {
    const PACKET_BYTES: u64 = 1000;
    let RedConfig { min, max, max_probability, .. } = *config;
    let burst = (2 * min + max) / (3 * PACKET_BYTES) + 1;
    let rate = rate.bits_per_second();
    format!(
        "red limit {limit} min {min} max {max} avpkt {PACKET_BYTES} burst {burst} probability {max_probability} \
         bandwidth {rate}bit"
    )
}

/// The command that `root` begins, of TBF with this bucket and a queue of so many bytes; where it has a line, of that rate and a bucket in bytes.
pub fn tbf_command(root: &str, bucket: TokenBucket, line: Option<(Rate, u64)>, queue_bytes: u64) -> String {
    let (rate, burst) = (bucket.rate.bits_per_second(), bucket.burst_bytes);
    let line = line.map(|(rate, bytes)| format!("peakrate {}bit mtu {bytes} ", rate.bits_per_second()));
    format!("{root} tbf rate {rate}bit burst {burst} {}limit {queue_bytes}", line.unwrap_or_default())
}

/// The commands that police what is sent by `device`.
pub fn policer_commands(device: &str, policer: TokenBucket) -> Vec<String> {
    let rate = policer.rate.bits_per_second() / 8;
    drop_commands(device, &format!("limit rate over {rate} bytes/second burst {} bytes", policer.burst_bytes))
}

/// The commands that drop what matches this condition of `nft` before the queue of `device`, where packets are without their Ethernet headers.
pub fn drop_commands(device: &str, condition: &str) -> Vec<String> {
    vec![
        "nft add table inet kumade".into(),
        "nft add chain inet kumade police { type filter hook forward priority 0 ; }".into(),
        format!("nft add rule inet kumade police oifname {device} {condition} drop"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_link::queue::DisciplineSettings;

    fn link() -> LinkConfig {
        LinkConfig { rate: Some(Rate::from_mbit(100)), queue_bytes: 150_000, ..LinkConfig::default() }
    }

    #[test]
    fn a_link_becomes_a_class_of_its_rate_with_its_queue() {
        let commands = tc_commands("e0", &link(), None).unwrap();
        assert!(commands[1].contains("rate 100000000bit ceil 100000000bit burst 800 "), "{commands:?}");
        assert!(commands[2].ends_with("parent 1:1 bfifo limit 150000"), "{commands:?}");
    }

    #[test]
    fn a_fast_link_counts_whole_frames() {
        let commands = offload_htb_commands("e0", Rate::from_mbit(3000), 1_000_000, 1500);
        assert!(commands[0].ends_with("root handle 1: htb default 1"), "{commands:?}");
        assert!(commands[1].contains("rate 3028000000bit ceil 3028000000bit burst 24224 "), "{commands:?}");
        assert!(commands[2].ends_with("parent 1:1 bfifo limit 1000000"), "{commands:?}");
    }

    #[test]
    fn a_shaper_and_a_policer_have_the_links_own_figures() {
        let bucket = TokenBucket { rate: Rate::from_mbit(20), burst_bytes: 100_000 };
        let shaped = LinkConfig { medium: Some(Medium::TokenBucket(bucket)), ..link() };
        let [shaper] = &tc_commands("e0", &shaped, None).unwrap()[..] else { panic!() };
        assert!(shaper.contains("tbf rate 20000000bit burst 100000 peakrate 100000000bit "), "{shaper}");
        let policed = tc_commands("e0", &LinkConfig { policer: Some(bucket), ..link() }, None).unwrap();
        let last = policed.last().unwrap();
        assert!(last.ends_with("limit rate over 2500000 bytes/second burst 100000 bytes drop"), "{last}");
        assert_eq!(nftables_burst_bytes(bucket), 2_600_000);
    }

    #[test]
    fn what_the_kernel_lacks_is_refused() {
        let lossy = LinkConfig { loss: Loss::Independent(0.01), ..link() };
        assert!(tc_commands("e0", &lossy, None).unwrap_err().contains("neither lose"));
        let queue = |name: &str| QueueConfig {
            limit: QueueLimit::Bytes(400_000),
            discipline: DisciplineSettings::new(name).unwrap().discipline(link().rate),
        };
        let error = tc_commands("e0", &link(), Some(&queue("fair-share"))).unwrap_err();
        assert!(error.contains("tail drop and RED"), "{error}");
        let red = tc_commands("e0", &link(), Some(&queue("red"))).unwrap();
        assert!(red[2].contains("parent 1:1 red limit 400000 min "), "{red:?}");
    }
}
