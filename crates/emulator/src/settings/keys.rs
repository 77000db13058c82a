use super::queue::QUEUE_KEY;
use kumade_link::queue::{DISCIPLINES, DisciplineInfo, DisciplineSettings, ParameterInfo};
use std::sync::LazyLock;

/// A setting as users are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingKey {
    /// As it is written.
    pub name: &'static str,
    /// The name of its value in help texts.
    pub value: &'static str,
    /// Its effect, for help texts.
    pub help: String,
    /// The only values that it can have, each with what it means; empty where there are too many to list.
    pub choices: Vec<(&'static str, &'static str)>,
    /// The group that it belongs to.
    pub group: SettingGroup,
}

/// What a setting belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingGroup {
    /// The link itself.
    Link,
    /// The queue in front of it, and its parameters.
    Queue,
    /// What is refused before the link.
    Rules,
}

fn key(group: SettingGroup, name: &'static str, value: &'static str, help: &str) -> SettingKey {
    SettingKey { name, value, help: help.to_owned(), choices: Vec::new(), group }
}

/// All settings.
pub static SETTING_KEYS: LazyLock<Vec<SettingKey>> =
    LazyLock::new(|| link_keys().into_iter().chain(queue_keys()).chain(rule_keys()).collect());

fn link_keys() -> Vec<SettingKey> {
    [rate_keys(), delay_keys(), loss_keys(), damage_keys(), bound_keys()].concat()
}

/// What carries packets, and how long each takes.
fn rate_keys() -> Vec<SettingKey> {
    vec![
        key(SettingGroup::Link, "rate", "RATE", "IP-layer rate, such as 100mbit, or `unlimited`"),
        key(
            SettingGroup::Link,
            "burst",
            "SIZE",
            "Token bucket: its size, which passes at `peak-rate` after an idle period, such as 32kb; `rate` is the committed rate; 0b for none",
        ),
        key(SettingGroup::Link, "peak-rate", "RATE", "Token bucket: peak rate; `unlimited` unless set"),
        key(
            SettingGroup::Link,
            "overhead",
            "BYTES",
            "Bytes that each IP packet takes on the line besides its own, such as 18 for Ethernet; the rate counts them",
        ),
        key(SettingGroup::Link, "mpu", "BYTES", "No packet takes less on the line, its overhead included, such as 64"),
        key(
            SettingGroup::Link,
            "linklayer",
            "LAYER",
            "Cells of the line: none unless set, atm (48+5 bytes), ptm (64/65), or another size as PAYLOAD+HEADER",
        ),
        key(
            SettingGroup::Link,
            "police",
            "RATE/BURST",
            "A policer before the queue: what exceeds this rate and burst is dropped, such as 50mbit/32kb; `none` for none",
        ),
        key(
            SettingGroup::Link,
            "trace",
            "FILE",
            "A trace of delivery opportunities in mahimahi's format, instead of a rate",
        ),
        key(
            SettingGroup::Link,
            "wireless",
            "SLOWEST-FASTEST",
            "A wireless hop like 802.11ac instead of a rate: it aggregates frames, and its modulation and coding scheme varies in this range, such as 3-9",
        ),
    ]
}

/// Delay and jitter.
fn delay_keys() -> Vec<SettingKey> {
    vec![
        key(SettingGroup::Link, "delay", "TIME", "Propagation delay, such as 20ms"),
        key(
            SettingGroup::Link,
            "jitter",
            "TIME",
            "Random extra delay: from 0 to this, and packets keep their order, unless the next two options say otherwise",
        ),
        key(
            SettingGroup::Link,
            "jitter-distribution",
            "NAME|FILE",
            "one-sided: from 0 to the jitter, unless set; uniform: around the delay, from minus the jitter to the jitter, as netem has \
             it; or a table of iproute2, also around the delay: normal, pareto, paretonormal, experimental, or a file such as ./my.dist",
        ),
        key(
            SettingGroup::Link,
            "jitter-reorder",
            "on|off",
            "Packets overtake each other where their jitter differs, as in netem; off unless set: a packet waits for those before it",
        ),
        key(
            SettingGroup::Link,
            "jitter-correlation",
            "RATIO",
            "Correlation of a packet's jitter and the next one's, such as 25%; the distribution stays as it is",
        ),
    ]
}

/// Which packets are lost.
fn loss_keys() -> Vec<SettingKey> {
    vec![
        key(SettingGroup::Link, "loss", "RATIO", "Ratio of packets lost, such as 0.1%"),
        key(SettingGroup::Link, "loss-burst", "N", "Mean length of loss bursts, in packets"),
        key(
            SettingGroup::Link,
            "loss-correlation",
            "RATIO",
            "Correlation of a packet's loss and the next one's, such as 25%, instead of the bursts' length; the ratio stays as it is",
        ),
        key(
            SettingGroup::Link,
            "gilbert-elliott",
            "P[,R[,BAD[,GOOD]]]",
            "Gilbert-Elliott loss: probability of the transition to the bad state, of that to the good state, of loss in the \
         bad and in the good state, such as 1%,25%,50%,0.1%",
        ),
        key(
            SettingGroup::Link,
            "loss-state",
            "P13[,P31[,P32[,P23[,P14]]]]",
            "Loss by four states, as netem has them: probabilities of the transitions between gap (1), arrival in a burst (2), loss in \
             a burst (3) and single loss (4), such as 1%,25%,10%,50%,0.1%",
        ),
    ]
}

/// What else happens to packets.
fn damage_keys() -> Vec<SettingKey> {
    vec![
        key(SettingGroup::Link, "reorder", "RATIO", "Ratio of packets held back so that later ones overtake them"),
        key(SettingGroup::Link, "reorder-delay", "TIME", "How long they are held back; 10ms unless set"),
        key(SettingGroup::Link, "duplicate", "RATIO", "Ratio of packets delivered twice"),
        key(
            SettingGroup::Link,
            "duplicate-correlation",
            "RATIO",
            "Correlation of a packet's duplication and the next one's",
        ),
        key(
            SettingGroup::Link,
            "corrupt",
            "RATIO",
            "Ratio of packets that arrive with one bit inverted: their checksum fails at the receiver",
        ),
        key(
            SettingGroup::Link,
            "corrupt-correlation",
            "RATIO",
            "Correlation of a packet's corruption and the next one's",
        ),
    ]
}

/// How many packets there may be, and by which random numbers.
fn bound_keys() -> Vec<SettingKey> {
    vec![
        key(
            SettingGroup::Link,
            "in-flight",
            "SIZE",
            "Maximum memory of packets, those that wait included; 256mb unless set",
        ),
        key(
            SettingGroup::Link,
            "limit",
            "SIZE",
            "Queue limit, such as 64kb or 100packets; unless set, 1000packets, 10240packets with fq-codel and fair-share, and 4mb with cake",
        ),
        key(SettingGroup::Link, "seed", "N", "Seed of the random numbers; only when the link starts"),
    ]
}

/// The queue's discipline, and each parameter that a discipline has.
fn queue_keys() -> Vec<SettingKey> {
    let choices = DISCIPLINES.iter().map(|info| (info.name, info.summary)).collect();
    let help = format!("Queue discipline; {} unless set", DisciplineSettings::default().name());
    let mut keys = vec![SettingKey { name: QUEUE_KEY, value: "NAME", help, choices, group: SettingGroup::Queue }];
    let all: Vec<_> = DISCIPLINES.iter().map(|info| (info, info.parameters())).collect();
    for parameter in all.iter().flat_map(|(_, parameters)| parameters) {
        if keys.iter().all(|key| key.name != parameter.name) {
            let (name, value, help) = (parameter.name, parameter.value, parameter_help(parameter.name, &all));
            keys.push(SettingKey { name, value, help, choices: Vec::new(), group: SettingGroup::Queue });
        }
    }
    keys
}

/// What a parameter does, by discipline: those that say the same of it are named together.
fn parameter_help(name: &str, all: &[(&DisciplineInfo, Vec<&ParameterInfo>)]) -> String {
    let mut told: Vec<(Vec<&str>, String)> = Vec::new();
    for (info, parameter) in all.iter().flat_map(|(info, own)| own.iter().map(move |parameter| (info, parameter))) {
        if parameter.name != name {
            continue;
        }
        let default = parameter.default.as_ref().map_or(String::new(), |default| format!(" [default: {default}]"));
        let text = parameter.help.to_owned() + &default;
        match told.iter_mut().find(|(_, known)| *known == text) {
            Some((disciplines, _)) => disciplines.push(info.name),
            None => told.push((vec![info.name], text)),
        }
    }
    told.iter().map(|(names, text)| format!("{}: {text}", names.join(", "))).collect::<Vec<_>>().join("; ")
}

fn rule_keys() -> Vec<SettingKey> {
    vec![
        key(SettingGroup::Rules, "rules", "none", "Remove all rules"),
        key(SettingGroup::Rules, "drop", "WHAT", "Drop silently: all, tcp, udp, icmp, tcp/PORT or udp/PORT"),
        key(SettingGroup::Rules, "reject", "WHAT", "Drop and notify the sender (ICMP error or TCP reset): as `drop`"),
        key(SettingGroup::Rules, "allow-only", "PORT[/reject]", "Drop everything but TCP from and to this port"),
        key(
            SettingGroup::Rules,
            "limit-connections",
            "N[/reject]",
            "Maximum of TCP connections from one host to one port of another",
        ),
        key(
            SettingGroup::Rules,
            "limit-syns",
            "N[/BURST]",
            "Maximum of new TCP connections per second; others are dropped",
        ),
        key(
            SettingGroup::Rules,
            "reset-after",
            "N[/total]",
            "Reset TCP connections after so many packets with data, per connection or in total",
        ),
    ]
}

/// All names, for an error.
/// `, perhaps you mean `delay``, if a name is similar.
pub(super) fn nearest(name: &str) -> String {
    const MIN_SIMILARITY: f64 = 0.7;
    let similarity = |key: &&SettingKey| strsim::jaro_winkler(key.name, name);
    let nearest = SETTING_KEYS.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    let nearest = nearest.filter(|key| similarity(key) > MIN_SIMILARITY);
    nearest.map_or_else(String::new, |key| format!(", perhaps you mean `{}`", key.name))
}

pub(super) fn names() -> String {
    SETTING_KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_listed_once() {
        let mut names: Vec<_> = SETTING_KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a parameter of a discipline has the name of another setting");
    }

    #[test]
    fn a_parameter_is_told_of_with_the_disciplines_that_have_it() {
        let help = |name| SETTING_KEYS.iter().find(|key| key.name == name).unwrap().help.clone();
        assert!(help("target").starts_with("codel, fair-codel, fq-codel: "), "{}", help("target"));
        assert!(help("target").contains("[default: 5ms]; fair-share: "), "{}", help("target"));
        assert!(help("ecn").contains("[default: off]; fq-codel: "), "{}", help("ecn"));
    }
}
