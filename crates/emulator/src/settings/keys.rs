/// A setting's name, and what may stand behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What its value is called in help texts.
    pub value: &'static str,
    /// What it does, for help texts.
    pub help: &'static str,
    /// What it belongs to.
    pub group: Group,
}

/// What a setting belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The link itself.
    Link,
    /// The queue in front of it, and its parameters.
    Queue,
    /// What is refused before the link.
    Rules,
}

const fn key(group: Group, name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, help, group }
}

/// All settings.
pub const KEYS: &[Key] = &[
    key(Group::Link, "rate", "RATE", "IP-layer rate, such as 100mbit, or `unlimited`"),
    key(
        Group::Link,
        "burst",
        "SIZE",
        "Token bucket: after a pause so much passes at once, such as 32kb, before `rate` holds; 0b for none",
    ),
    key(Group::Link, "peak-rate", "RATE", "Rate at which a burst passes; `unlimited` unless set"),
    key(Group::Link, "trace", "FILE", "Opportunities to send, as mahimahi records them, instead of a rate"),
    key(
        Group::Link,
        "wireless",
        "SLOWEST-FASTEST",
        "A last hop like 802.11ac instead of a rate: it aggregates, and wanders between these coding schemes, such as 3-9",
    ),
    key(Group::Link, "delay", "TIME", "Time on the way, such as 20ms"),
    key(Group::Link, "jitter", "TIME", "Extra delay by chance, from 0 to this; packets keep their order"),
    key(Group::Link, "loss", "PART", "Part of the packets that is lost, such as 0.1%"),
    key(Group::Link, "loss-burst", "N", "Lose packets in bursts of so many on the average"),
    key(
        Group::Link,
        "gilbert-elliott",
        "P[,R[,BAD[,GOOD]]]",
        "Loss that comes and goes: probability of turning bad, of turning good, of a loss in bad and in good times, such \
         as 1%,25%,50%,0.1%",
    ),
    key(Group::Link, "reorder", "PART", "Part of the packets that is held back, so that others overtake them"),
    key(Group::Link, "reorder-delay", "TIME", "For how long they are held back; 10ms unless set"),
    key(Group::Link, "duplicate", "PART", "Part of the packets that is delivered twice"),
    key(Group::Link, "in-flight", "SIZE", "How much may be on its way; 256mb unless set"),
    key(Group::Link, "limit", "SIZE", "How much may wait, such as 64kb or 100packets; 1000packets unless set"),
    key(Group::Link, "seed", "N", "Seed of all that is left to chance; for the start alone"),
    key(
        Group::Queue,
        "queue",
        "NAME",
        "Who waits, goes and is dropped: tail-drop, codel, red, active-dropping, fair-codel, choke, afd, fq-codel, or \
         fair-share, the project's own",
    ),
    key(Group::Queue, "target", "TIME", "codel, fair-codel, fq-codel, fair-share: the delay aimed at"),
    key(Group::Queue, "interval", "TIME", "codel, fair-codel, fq-codel: how long the delay may be above the target"),
    key(Group::Queue, "mtu", "SIZE", "codel, fair-codel, fq-codel: the largest packet"),
    key(Group::Queue, "law", "LAW", "codel, fair-codel, fq-codel: exact (RFC 8289) or newton (Linux)"),
    key(Group::Queue, "ecn", "on|off", "Mark packets instead of dropping them where their sender understands it"),
    key(Group::Queue, "min", "SIZE", "red, active-dropping, choke: no drops below this average length"),
    key(Group::Queue, "max", "SIZE", "red, active-dropping, choke: `probability` of a drop at this average length"),
    key(Group::Queue, "probability", "PART", "red, active-dropping, choke: see `max`"),
    key(Group::Queue, "gentle", "on|off", "red, active-dropping, choke: whether all is dropped only above twice `max`"),
    key(
        Group::Queue,
        "weight",
        "PART",
        "red, active-dropping, choke: how much the present length counts in the average",
    ),
    key(Group::Queue, "rec-int", "N", "active-dropping, fair-codel: one of so many packets is recorded"),
    key(Group::Queue, "hist-len", "N", "active-dropping, fair-codel: so many records are kept"),
    key(
        Group::Queue,
        "stat-int",
        "N",
        "active-dropping, fair-codel: the heavy flow is found anew after so many packets",
    ),
    key(
        Group::Queue,
        "heavy-flows",
        "LIST",
        "active-dropping, fair-codel: ids of the heavy flows (the static variant), as `show --json` names them, such as 1,2",
    ),
    key(
        Group::Queue,
        "preference",
        "HEAVY/OTHER",
        "active-dropping, fair-codel: with what probability a due drop hits a heavy flow and another, such as 100%/10%",
    ),
    key(Group::Queue, "target-bytes", "SIZE", "afd: the length at which the queue is held"),
    key(Group::Queue, "samples", "N", "afd: how many samples of the traffic are kept"),
    key(Group::Queue, "sample-bytes", "SIZE", "afd: one sample is taken of so many bytes"),
    key(Group::Queue, "update", "TIME", "afd: how often the fair share is adjusted"),
    key(Group::Queue, "quantum", "SIZE", "fq-codel: how much a queue sends in its turn"),
    key(Group::Queue, "flows", "N", "fq-codel: how many queues; fair-share: how many flows are remembered"),
    key(Group::Queue, "window", "TIME", "fair-share: over how long a time flows are compared"),
    key(Group::Rules, "rules", "none", "Take away all rules that there are"),
    key(Group::Rules, "drop", "WHAT", "Drop in silence: all, tcp, udp, icmp, tcp/PORT or udp/PORT"),
    key(Group::Rules, "reject", "WHAT", "Drop, and tell the sender: as `drop`"),
    key(Group::Rules, "allow-only", "PORT[/reject]", "Refuse all but TCP from and to this port"),
    key(
        Group::Rules,
        "limit-connections",
        "N[/reject]",
        "Refuse TCP connections beyond so many from one host to one port of another",
    ),
    key(Group::Rules, "limit-syns", "N[/BURST]", "Drop new TCP connections beyond so many a second"),
    key(
        Group::Rules,
        "reset-after",
        "N[/total]",
        "Break TCP connections off after so many packets with data, each connection's or all together",
    ),
];

pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// All names, for an error.
pub(super) fn names() -> String {
    KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")
}

/// How the setting is written.
pub(super) fn example(name: &str) -> String {
    find(name).map_or(String::new(), |key| format!("{} {}", key.name, key.value))
}
