use super::*;
use kumade_link::queue::{ControlLaw, DISCIPLINES, Discipline, HeavyFlows, Isolation, QueueLimit, TinLayout};
use kumade_link::{Cells, Framing, Jitter, JitterDistribution, Link, Loss, Medium, Reordering, TokenBucket};
use kumade_middlebox::{FilterRule, PacketMatch, RefusalKind};
use kumade_units::{Rate, Span, Time};
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
    assert_eq!(
        (config.link.delay, config.link.jitter.clone()),
        (Span::from_millis(20), Jitter::from(Span::from_millis(1)))
    );
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
        let values = [
            "1mbit",
            "5ms",
            "1%",
            "2",
            "9kb",
            "3-9",
            "on",
            "exact",
            "uniform",
            "besteffort",
            "flows",
            "90%/1%",
            "tcp",
            "none",
            "wrr",
        ];
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
fn loss_is_correlated_or_has_four_states() {
    assert_eq!(direction("loss 1% loss-correlation 25%").link.loss, Loss::correlated(0.01, 0.25));
    assert_eq!(direction("loss-correlation 25% loss 1%").link.loss, Loss::correlated(0.01, 0.25));
    assert_eq!(direction("loss 1% loss-correlation 25% loss-correlation 0").link.loss, Loss::Independent(0.01));
    assert_eq!(direction("loss 1% loss-correlation 25% loss-burst 4").link.loss, Loss::bursts(0.01, 4.0).unwrap());
    let four = |p13, p31, p32, p23, p14| Loss::FourState { p13, p31, p32, p23, p14 };
    assert_eq!(direction("loss-state 1%").link.loss, four(0.01, 0.99, 0.0, 1.0, 0.0));
    assert_eq!(direction("loss-state 1%,25%,10%,50%,0.1%").link.loss, four(0.01, 0.25, 0.1, 0.5, 0.001));
    assert_eq!(direction("loss-state 1% loss 2%").link.loss, Loss::Independent(0.02));
}

#[test]
fn jitter_is_one_sided_and_in_order_unless_it_is_said_to_be_as_netem_has_it() {
    let jitter = |words: &str| direction(words).link.jitter.clone();
    assert_eq!(jitter("jitter 5ms"), Span::from_millis(5).into());
    let words = "delay 20ms jitter 5ms jitter-distribution uniform jitter-correlation 25% jitter-reorder on";
    let netem = Jitter {
        amount: Span::from_millis(5),
        distribution: JitterDistribution::Uniform,
        correlation: 0.25,
        reorders: true,
    };
    assert_eq!((jitter(words), shown(words)), (netem, words.to_owned()));
    assert_eq!(
        jitter(&format!("{words} jitter-distribution one-sided jitter-correlation 0 jitter-reorder off")),
        Span::from_millis(5).into()
    );
    let path = std::env::temp_dir().join(format!("kumade-jitter-{}.dist", std::process::id()));
    std::fs::write(&path, "# a table\n-8192 8192\n").unwrap();
    let words = format!("delay 20ms jitter 5ms jitter-distribution {}", path.display());
    assert!(matches!(jitter(&words).distribution, JitterDistribution::Table(_)));
    assert_eq!(shown(&words), words);
    std::fs::remove_file(path).unwrap();
}

/// The tables of iproute2, where it is installed. What the documentation says of them is printed.
#[test]
fn the_tables_of_iproute2_are_read_and_are_not_what_they_are_said_to_be() {
    if let Err(error) = settings("jitter-distribution pareto") {
        println!("iproute2 has no tables here: {error}");
        return;
    }
    for (name, mean, deviation) in [("normal", 0.0, 1.0), ("pareto", -0.03, 0.82), ("paretonormal", -0.03, 0.83)] {
        let mut link =
            Link::new(direction(&format!("delay 20ms jitter 5ms jitter-distribution {name} jitter-reorder on")).link);
        let jitter = link.config().jitter.clone();
        let ends = [jitter.lowest(), jitter.highest()].map(|end| end.as_secs_f64() / jitter.amount.as_secs_f64());
        const PACKETS: i64 = 200_000;
        for number in 0..PACKETS {
            link.offer((), 100, Time::from_nanos(number * 1_000_000)).unwrap();
        }
        let came = std::iter::from_fn(|| link.pop_due(Time::MAX));
        let jitters: Vec<f64> = came.map(|it| ((it.due - it.arrival).as_secs_f64() - 0.02) / 0.005).collect();
        let seen = jitters.iter().sum::<f64>() / PACKETS as f64;
        let spread = (jitters.iter().map(|value| (value - seen).powi(2)).sum::<f64>() / PACKETS as f64).sqrt();
        println!("{name}: mean {seen:.3}, deviation {spread:.3}, from {:.3} to {:.3} jitters", ends[0], ends[1]);
        assert!((seen - mean).abs() < 0.02 && (spread - deviation).abs() < 0.02, "seed 0, {name}: {seen} {spread}");
        assert!(ends[1] <= 4.0 && ends[1] > 3.5, "{name}: {ends:?}");
    }
}

/// docs/coming-from.md says what `tc` users write here: that is accepted, and is what netem does.
#[test]
fn the_translations_from_tc_are_accepted() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coming-from.md")).unwrap();
    let (_, tc) = page.split_once("\n## tc\n").unwrap();
    let tc = tc.split("\n## ").next().unwrap();
    let rows = tc.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let mut translated = 0;
    for (from, to) in rows {
        // `--delay 20ms --loss 1%`, up to the end of the code.
        let Some((_, options)) = to.split_once("`--").or(to.split_once(" --")).filter(|_| from != "---") else {
            continue;
        };
        let words = options.split('`').next().unwrap().replace("--", " ").replace("./my.dist", "uniform");
        let needs_tables = words.contains("distribution normal") && settings("jitter-distribution normal").is_err();
        assert!(needs_tables || settings(&words).is_ok(), "{from}: {:?}", settings(&words));
        translated += 1;
        if from == "`netem delay 20ms 5ms`" {
            let link = direction(&words).link;
            assert_eq!(
                (link.shortest_delay(), link.delay + link.jitter.highest()),
                (Span::from_millis(15), Span::from_millis(25))
            );
            assert!(link.jitter.reorders);
        }
    }
    assert!(translated > 12, "{translated}");
}

#[test]
fn the_line_has_an_overhead_and_cells() {
    let framing = |words| direction(words).link.framing;
    let adsl = Framing { overhead_bytes: 32, cells: Cells::ATM, ..Framing::default() };
    assert_eq!(framing("rate 10mbit overhead 32 linklayer atm"), adsl);
    let ethernet = Framing { overhead_bytes: 38, min_frame_bytes: 84, cells: Cells::None };
    assert_eq!(framing("overhead 38 mpu 84 linklayer none"), ethernet);
    assert_eq!(framing("overhead -4").overhead_bytes, -4);
    assert_eq!(framing("linklayer 100+4").cells, Cells::Fixed { payload_bytes: 100, header_bytes: 4 });
    for words in ["rate 10mbit overhead 32 linklayer atm", "overhead -4 mpu 64 linklayer ptm", "linklayer 100+4"] {
        assert_eq!(shown(words), words);
    }
}

/// CAKE's shaper is the link: its tins have parts of the link's rate, and count what the link adds.
#[test]
fn cake_knows_the_rate_and_the_framing_of_its_link() {
    let words = "rate 10mbit overhead 32 linklayer atm queue cake isolation dual-srchost tins diffserv4";
    let config = direction(words);
    let Discipline::Cake(cake) = config.queue.discipline else { panic!("it is cake") };
    assert_eq!((cake.rate, cake.framing), (Some(Rate::from_mbit(10)), config.link.framing));
    assert_eq!((cake.tins, cake.isolation), (TinLayout::Diffserv4, Isolation::DualSourceHosts));
    assert_eq!((config.queue.limit, shown(words)), (QueueLimit::Bytes(4 << 20), words.to_owned()));
}

#[test]
fn a_part_of_all_packets_is_corrupted() {
    let words = "duplicate 2% duplicate-correlation 10% corrupt 1% corrupt-correlation 30%";
    let link = direction(words).link;
    assert_eq!((link.duplication, link.duplication_correlation), (0.02, 0.1));
    assert_eq!((link.corruption, link.corruption_correlation), (0.01, 0.3));
    assert_eq!(shown(words), words);
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
        ("jitter 5ms jitter-distribution parteo", "there is no distribution `parteo`: give one-sided, uniform"),
        ("jitter-distribution ./no-such.dist", "cannot read the distribution ./no-such.dist"),
        ("jitter-distribution /etc/passwd", "/etc/passwd is no distribution: cannot read the distribution: line 1 has"),
        ("jitter-reorder yes", "neither `on` nor `off`"),
        ("loss-state 60%,1%,1%,1%,60%", "sum of the loss states p13 and p14 is 1.2"),
        ("loss-state 1%,1%,1%,1%,1%,1%", "more than five"),
        ("corrupt 120%", "more than the whole"),
        ("overhead 1000", "overhead is 1000 bytes, out of range"),
        ("linklayer isdn", "neither none, atm nor ptm"),
        ("linklayer 0+5", "give 48+5 for ATM"),
        ("wireless 3-9 overhead 18", "the medium has its own"),
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
    assert_eq!(
        warnings("up overhead 32"),
        "without a rate in one direction, overhead, mpu and linklayer do nothing: give one with --rate"
    );
    assert!(warnings("jitter-reorder on").starts_with("without jitter, its distribution, order and correlation"));
    for quiet in [
        "overhead 32 rate 10mbit",
        "jitter 5ms jitter-distribution uniform",
        "queue fair-share rate 10mbit",
        "delay 5ms",
        "queue codel wireless 3-9",
    ] {
        assert_eq!(warnings(quiet), "", "{quiet}");
    }
}

/// Any settings, as words that make sense.
fn any_words() -> impl Strategy<Value = String> {
    let rate = (1u64..100_000_000).prop_map(|rate| format!("rate {rate}bit"));
    let delay = (0i64..1_000_000_000).prop_map(|delay| format!("delay {delay}ns"));
    let loss = (0.0..0.5f64, 1.0..9.0f64)
        .prop_map(|(loss, burst)| format!("loss {loss:.12} loss-burst {burst} reorder {loss} duplicate {loss:.5}"));
    let jitter = (0i64..9_000_000, 0.0..0.9f64, any::<bool>(), 0.0..0.5f64, -64i32..256).prop_map(|(span, part, on, corrupt, overhead)| {
        let (order, distribution) = if on { ("on", "uniform") } else { ("off", "one-sided") };
        format!("jitter {span}ns jitter-correlation {part:.9} jitter-reorder {order} jitter-distribution {distribution} \
                 corrupt {corrupt:.9} corrupt-correlation {part:.5} overhead {overhead} mpu 64 linklayer ptm")
    });
    let limit = (3000u64..1_000_000).prop_map(|limit| format!("limit {limit}b"));
    let queue = prop::sample::select(DISCIPLINES.iter().flat_map(|info| info.test_settings).collect::<Vec<_>>());
    let queue = queue.prop_map(|trial| format!("queue {}", trial.replace([':', '='], " ")));
    let rules = prop::sample::select(vec!["drop udp/53 allow-only 443/reject", "reset-after 9/total limit-syns 4", ""]);
    (rate, delay, loss, jitter, limit, queue, rules)
        .prop_map(|(a, b, c, d, e, f, g)| [&a, &b, &c, &d, &e, &f, g].join(" "))
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
