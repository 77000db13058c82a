use super::*;
use kumade_link::queue::{ControlLaw, DISCIPLINES, Discipline, HeavyFlows, QueueLimit};
use kumade_link::{Loss, Medium, Reordering, TokenBucket};
use kumade_middlebox::{FilterRule, PacketMatch, RefusalKind};
use kumade_units::{Rate, Span};
use proptest::prelude::*;

fn settings(words: &str) -> Result<Settings, SettingError> {
    Settings::new(&SettingsChange::parse(words)?)
}

/// Of the first direction, as they are shown.
fn shown(words: &str) -> String {
    settings(words).unwrap().to_texts()[0].clone()
}

fn direction(words: &str) -> DirectionConfig {
    settings(words).unwrap().configs()[0].clone()
}

#[test]
fn nothing_set_does_nothing() {
    let plain = direction("");
    assert_eq!((plain.link.rate, plain.link.delay, plain.link.loss), (None, Span::ZERO, Loss::None));
    assert!(plain.rules.is_empty());
    assert_eq!(shown(""), "no impairments");
}

#[test]
fn settings_are_read_as_tc_writes_them() {
    let config = direction("rate 100mbit delay 20ms jitter 1ms loss 0.1% limit 64kb");
    assert_eq!(config.link.rate, Some(Rate::from_mbit(100)));
    assert_eq!((config.link.delay, config.link.jitter), (Span::from_millis(20), Span::from_millis(1)));
    assert_eq!((config.link.loss, config.queue.limit), (Loss::Independent(0.001), QueueLimit::Bytes(65536)));
    assert_eq!(direction("limit 50packets").queue.limit, QueueLimit::Packets(50));
    assert_eq!(direction("rate 5mbit rate unlimited").link.rate, None);
}

#[test]
fn what_is_listed_can_be_set() {
    for key in SETTING_KEYS.iter().filter(|key| !["trace", "queue"].contains(&key.name)) {
        let takes = |value: &&str| {
            DISCIPLINES.iter().any(|info| {
                let mut directions = [DirectionSettings::default()];
                directions[0].queue.set("queue", info.name).unwrap();
                direction::apply_setting(&mut directions, key, value).is_ok()
            })
        };
        let values = ["1mbit", "5ms", "1%", "2", "9kb", "3-9", "on", "exact", "90%/1%", "tcp", "none"];
        assert!(values.iter().any(takes), "{}", key.name);
    }
}

#[test]
fn loss_comes_alone_or_in_bursts() {
    assert_eq!(direction("loss 1% loss-burst 4").link.loss, Loss::bursts(0.01, 4.0).unwrap());
    assert_eq!(direction("loss-burst 4 loss 1%").link.loss, Loss::bursts(0.01, 4.0).unwrap());
    let gilbert = Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.25, loss_in_good: 0.001, loss_in_bad: 0.5 };
    assert_eq!(direction("gilbert-elliott 1%,25%,50%,0.1%").link.loss, gilbert);
}

#[test]
fn disciplines_have_their_parameters() {
    let Discipline::CoDel(codel) = direction("queue codel target 8ms law newton ecn on").queue.discipline else {
        panic!("it is codel");
    };
    assert_eq!((codel.target, codel.law, codel.ecn), (Span::from_millis(8), ControlLaw::Newton, true));
    let Discipline::FairCoDel(fair) =
        direction("queue fair-codel rec-int 2 preference 90%/0%").queue.discipline.clone()
    else {
        panic!("it is fair codel");
    };
    assert!(matches!(fair.heavy, HeavyFlows::Busiest(history) if history.rec_int == 2 && history.stat_int == 100));
    assert_eq!((fair.preference.heavy, fair.preference.other), (0.9, 0.0));
    let Discipline::Red(red) = direction("rate 100mbit queue red max 1mb").queue.discipline else {
        panic!("it is red");
    };
    assert_eq!((red.min, red.max), (62_500, 1 << 20));
    for trial in DISCIPLINES.iter().flat_map(|info| info.test_settings) {
        direction(&format!("queue {}", trial.replace([':', '='], " ")));
    }
}

#[test]
fn a_policer_drops_what_exceeds_its_rate_and_burst() {
    let bucket = TokenBucket { rate: Rate::from_mbit(50), burst_bytes: 30 << 10 };
    assert_eq!(direction("rate 100mbit police 50mbit/30kb").link.policer, Some(bucket));
    assert_eq!(shown("police 50mbit/30kb rate 100mbit"), "rate 100mbit police 50mbit/30kb");
    assert_eq!(direction("police 50mbit/30kb police none"), direction(""));
    for (text, part) in [("50mbit", "is not like 50mbit/32kb"), ("50mbit/1kb", "lets no full packet pass")] {
        let error = Settings::new(&SettingsChange::parse(&format!("police {text}")).unwrap()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_burst_makes_a_token_bucket_of_the_rate() {
    let link = direction("rate 10mbit burst 32kb peak-rate 100mbit").link;
    let bucket = TokenBucket { rate: Rate::from_mbit(10), burst_bytes: 32 << 10 };
    assert_eq!((link.rate, link.medium.clone()), (Some(Rate::from_mbit(100)), Some(Medium::TokenBucket(bucket))));
    assert_eq!(direction("rate 10mbit burst 32kb").link.rate, None);
    assert_eq!(shown("peak-rate 100mbit burst 32kb rate 10mbit"), "rate 10mbit burst 32kb peak-rate 100mbit");
    assert_eq!(direction("rate 10mbit burst 32kb burst 0b"), direction("rate 10mbit"));
    for (words, reason) in [
        ("burst 32kb", "needs a rate"),
        ("wireless 3-9 burst 32kb", "needs a rate"),
        ("rate 1mbit peak-rate 2mbit", "needs a burst"),
        ("rate 1mbit burst 9kb peak-rate 1mbit", "must be higher than the rate"),
    ] {
        let error = settings(words).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_trace_or_a_wireless_hop_takes_the_place_of_the_rate() {
    let path = std::env::temp_dir().join(format!("kumade-trace-{}", std::process::id()));
    std::fs::write(&path, "1\n2\n10\n").unwrap();
    let words = format!("rate 1mbit trace {}", path.display());
    let traced = direction(&words);
    assert!(matches!(traced.link.medium, Some(Medium::Trace(_))) && traced.link.rate.is_none());
    assert_eq!(shown(&words), format!("trace {}", path.display()));
    std::fs::remove_file(path).unwrap();
    let Some(Medium::Wireless(hop)) = direction("wireless 2-7").link.medium else { panic!("it is wireless") };
    assert_eq!((hop.slowest, hop.fastest), (2, 7));
    assert_eq!(direction("wireless 2-7 rate 5mbit").link.medium, None);
}

#[test]
fn files_are_named_from_where_the_user_is() {
    let mut change = SettingsChange::parse("up trace a/b.trace down trace /c.trace").unwrap();
    change.make_paths_absolute(std::path::Path::new("/home"));
    assert_eq!(change, SettingsChange::parse("up trace /home/a/b.trace down trace /c.trace").unwrap());
}

#[test]
fn packets_overtake_each_other_and_come_twice() {
    let link = direction("reorder 1% reorder-delay 5ms duplicate 0.5% in-flight 1mb").link;
    assert_eq!(link.reordering, Reordering { probability: 0.01, extra: Span::from_millis(5) });
    assert_eq!((link.duplication, link.in_flight_bytes), (0.005, 1 << 20));
}

#[test]
fn rules_add_up_until_they_are_taken_away() {
    let rules = direction("drop udp reject tcp/80 limit-syns 5/10").rules;
    let web = PacketMatch { protocol: Some(6), destination_port: Some(80) };
    assert_eq!(rules[1], FilterRule::Refuse { matching: web, refusal: RefusalKind::Reject });
    assert_eq!(rules.len(), 3);
    assert!(direction("drop udp rules none").rules.is_empty());
}

#[test]
fn a_change_is_for_the_directions_that_it_names() {
    let change = SettingsChange::parse("delay 5ms up rate 1mbit down rate 10mbit both loss 1%").unwrap();
    let settings = Settings::new(&change).unwrap();
    assert_eq!(settings.to_texts(), ["rate 1mbit delay 5ms loss 1%", "rate 10mbit delay 5ms loss 1%"]);
    let later = settings.change(&SettingsChange::parse("down rate 2mbit").unwrap()).unwrap();
    assert_eq!(later.to_texts(), ["rate 1mbit delay 5ms loss 1%", "rate 2mbit delay 5ms loss 1%"]);
    assert_eq!(later.configs()[0], settings.configs()[0]);
}

#[test]
fn a_change_is_sent_with_the_names_of_its_settings() {
    let change = SettingsChange::parse("delay 5ms down loss 1%").unwrap();
    let sent = serde_json::to_string(&change).unwrap();
    assert_eq!(sent, r#"[["both","delay","5ms"],["down","loss","1%"]]"#);
    assert_eq!(serde_json::from_str::<SettingsChange>(&sent).unwrap(), change);
    let error = serde_json::from_str::<SettingsChange>(r#"[["up","speed","1"]]"#).unwrap_err().to_string();
    assert!(error.contains("there is no setting `speed`"), "{error}");
}

#[test]
fn nonsense_is_refused_with_the_reason() {
    for (words, reason) in [
        // Finding 9 of the review by a new user.
        ("rat 5mbit", "there is no setting `rat`, perhaps you mean `rate`; the settings are"),
        ("dealy 5ms", "perhaps you mean `delay`"),
        ("bandwidth 5mbit", "there is no setting `bandwidth`; the settings are rate, burst, "),
        ("rate", "`rate` needs a value: rate RATE"),
        ("rate 0", "a rate of 0 lets nothing pass"),
        ("rate fast", "does not begin with a number"),
        ("loss 150%", "cannot set loss: `150%` is not a ratio: it is more than the whole"),
        ("delay -5ms", "cannot set delay"),
        ("loss 100% loss-burst 2", "mean is 1, out of range"),
        ("loss 90% loss-burst 2", "mean burst length is 2"),
        ("rate 1gbit delay 60s", "1 Gbit/s puts 7500000000 bytes on their way in that time, more than the limit"),
        ("reorder 1% reorder-delay 0s", "in which nothing overtakes"),
        ("duplicate 101%", "more than the whole"),
        ("trace /no/such/file", "cannot read the trace /no/such/file"),
        ("trace /dev/zero", "longer than 64mb"),
        ("wireless 9-3", "from the slowest to the fastest"),
        ("wireless 3-99", "cannot set"),
        ("limit 10g", "more than the maximum of 256mb"),
        ("queue codel limit 0", "a queue limit of 0b holds no packet"),
        ("wireless 3-9 limit 0packets", "holds no packet"),
        ("queue fastest", "`fastest` is not a queue discipline; choose one of tail-drop, codel"),
        ("target 5ms", "tail-drop has no parameter `target`: it has none"),
        ("queue codel min 5kb", "codel has no parameter `min`: it has target, interval, mtu, law, ecn"),
        ("queue codel interval 0s", "interval is 0 ns"),
        ("queue red min 5kb max 4kb", "which leaves nothing between it and the minimum"),
        ("queue fair-share flows 1", "number of flows is 1"),
        ("drop icmp/80", "has no ports"),
        ("reject tcp/0", "not a port number"),
        ("limit-syns 0", "which lets nothing pass"),
        ("rules all", "`rules none`"),
    ] {
        let text = settings(words).unwrap_err().to_string();
        assert!(text.contains(reason), "{words}: {text}");
    }
}

/// Nothing said that such a queue never holds a packet.
#[test]
fn a_queue_discipline_without_a_rate_is_told_of() {
    let warnings = |words| settings(words).unwrap().warnings().join("\n");
    assert!(
        warnings("queue fair-share")
            .starts_with("without a rate, no packet waits, and the queue discipline fair-share")
    );
    for quiet in ["queue fair-share rate 10mbit", "delay 5ms", "queue codel wireless 3-9"] {
        assert_eq!(warnings(quiet), "", "{quiet}");
    }
}

/// Any settings, as words that make sense.
fn any_words() -> impl Strategy<Value = String> {
    let rate = (1u64..100_000_000).prop_map(|rate| format!("rate {rate}bit"));
    let delay = (0i64..1_000_000_000).prop_map(|delay| format!("delay {delay}ns"));
    let loss = (0.0..0.5f64, 1.0..9.0f64)
        .prop_map(|(loss, burst)| format!("loss {loss:.12} loss-burst {burst} reorder {loss} duplicate {loss:.5}"));
    let limit = (3000u64..1_000_000).prop_map(|limit| format!("limit {limit}b"));
    let queue = prop::sample::select(DISCIPLINES.iter().flat_map(|info| info.test_settings).collect::<Vec<_>>());
    let queue = queue.prop_map(|trial| format!("queue {}", trial.replace([':', '='], " ")));
    let rules = prop::sample::select(vec!["drop udp/53 allow-only 443/reject", "reset-after 9/total limit-syns 4", ""]);
    (rate, delay, loss, limit, queue, rules).prop_map(|(a, b, c, d, e, f)| [&a, &b, &c, &d, &e, f].join(" "))
}

proptest! {
    #[test]
    fn what_is_shown_is_read_again_as_the_same(words in any_words()) {
        let once = settings(&words).unwrap();
        prop_assert_eq!(settings(&shown(&words)).unwrap(), once);
    }

    #[test]
    fn no_text_is_too_much(words in prop::collection::vec(prop::sample::select(
        SETTING_KEYS.iter().map(|key| key.name).chain(["up", "down", "1", "0", "1e99", "100%", "5ms", "on", "codel", "/", ",", "£", "9999999999999mbit"]).collect::<Vec<_>>()
    ), 0..12), text in ".{0,40}") {
        let _ = settings(&words.join(" "));
        let _ = settings(&text);
    }
}
