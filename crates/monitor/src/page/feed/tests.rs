use super::*;
use crate::status::{LossStatus, StateStatus};
use serde_json::Value;

fn pair(number: usize) -> PairStatus {
    let state = StateStatus {
        level: "good".to_owned(),
        word: "up".to_owned(),
        detail: "Probes are answered.".to_owned(),
        since_seconds: 1_800_000_000.0,
    };
    PairStatus {
        id: format!("pair-{number}"),
        name: format!("pair {number}"),
        ends: None,
        host: "192.0.2.7".to_owned(),
        address: None,
        probe: "echo".to_owned(),
        interval_seconds: 1.0,
        is_measured: true,
        state,
        delays: Vec::new(),
        loss: Some(LossStatus { sent: 900, ratio: 0.1, low: 0.08, high: 0.12 }),
        loss_up: None,
        loss_down: None,
        run: None,
    }
}

fn status(pairs: usize) -> MonitorStatus {
    MonitorStatus { pairs: (0..pairs).map(pair).collect(), ..MonitorStatus::empty("office") }
}

fn messages(feed: &mut StatusFeed, known: Option<&str>) -> Vec<Value> {
    serde_json::from_slice(&feed.messages_after(known)).unwrap()
}

/// A page that shows this, and is told of what it has missed.
fn show(page: &mut Value, messages: &[Value]) {
    for message in messages {
        if message["status"].is_object() {
            *page = message["status"].clone();
        } else {
            assert_eq!(message["after"], page["revision"]);
            for changed in message["pairs"].as_array().unwrap() {
                let pairs = page["pairs"].as_array_mut().unwrap();
                *pairs.iter_mut().find(|pair| pair["id"] == changed["id"]).unwrap() = changed.clone();
            }
            for (key, value) in message["rest"].as_object().into_iter().flatten() {
                if !["pairs", "agents", "links"].contains(&key.as_str()) {
                    page[key] = value.clone();
                }
            }
            page["time_seconds"] = message["time_seconds"].clone();
        }
        page["revision"] = message["revision"].clone();
    }
}

#[test]
fn a_page_that_takes_all_changes_shows_what_one_sees_that_asks_for_all() {
    let mut now = status(50);
    let mut feed = StatusFeed::new("a".to_owned(), &now);
    let (mut steady, mut rare) = (Value::Null, Value::Null);
    for step in 0..40_usize {
        now.time_seconds += 5.0;
        now.pairs[step % 7].state.word = format!("word {step}");
        now.pairs[step % 50].loss.as_mut().unwrap().ratio = step as f64 / 40.0;
        now.archive_failure = (step % 9 == 0).then(|| "the disk is full".to_owned());
        if step == 20 {
            now.pairs.pop();
        }
        feed.take(&now);
        let know = |page: &Value| page["revision"].as_str().map(str::to_owned);
        let news = messages(&mut feed, know(&steady).as_deref());
        assert_eq!(news.iter().any(|news| news["status"].is_object()), step == 0 || step == 20);
        show(&mut steady, &news);
        if step % 13 == 0 {
            let news = messages(&mut feed, know(&rare).as_deref());
            show(&mut rare, &news);
            assert_eq!(steady, rare);
        }
        let mut whole = Value::Null;
        show(&mut whole, &messages(&mut feed, None));
        assert_eq!(steady, whole);
        assert_eq!(steady["archive_failure"].is_string(), step % 9 == 0);
        assert!(messages(&mut feed, know(&steady).as_deref()).is_empty());
    }
}

#[test]
fn small_changes_of_figures_are_not_told_until_they_add_up() {
    let mut now = status(2);
    let mut feed = StatusFeed::new("a".to_owned(), &now);
    let mut told = 0;
    for _ in 0..20 {
        let loss = now.pairs[0].loss.as_mut().unwrap();
        loss.sent += 1;
        loss.ratio *= 1.01;
        let known = feed.revision.clone();
        feed.take(&now);
        let [message] = &messages(&mut feed, Some(&known))[..] else { panic!() };
        told += message["pairs"].as_array().unwrap().len();
        assert!(message["rest"].is_null());
        let shown = feed.told.pairs[0].loss.unwrap().ratio;
        assert!((shown / now.pairs[0].loss.unwrap().ratio - 1.0).abs() < 0.06);
    }
    assert!((2..=5).contains(&told), "{told}");
    // That anything was lost is told at once, however little.
    now.pairs[1].loss = Some(LossStatus { sent: 900, ratio: 0.0, low: 0.0, high: 0.004 });
    feed.take(&now);
    now.pairs[1].loss = Some(LossStatus { sent: 900, ratio: 0.0001, low: 0.0, high: 0.004 });
    let known = feed.revision.clone();
    feed.take(&now);
    assert_eq!(messages(&mut feed, Some(&known))[0]["pairs"][0]["id"], "pair-1");
}

#[test]
fn who_is_far_behind_or_knows_another_process_is_told_all_and_memory_is_bounded() {
    let mut now = status(400);
    let mut feed = StatusFeed::new("a".to_owned(), &now);
    let first = feed.revision.clone();
    for step in 0..500 {
        now.pairs.iter_mut().take(100).for_each(|pair| pair.state.detail = format!("{step} {}", "x".repeat(200)));
        feed.take(&now);
        assert!(feed.changes.len() <= MAX_KEPT_CHANGES && feed.change_bytes <= MAX_KEPT_BYTES);
        assert_eq!(feed.change_bytes, feed.changes.iter().map(|change| change.json.len()).sum::<usize>());
    }
    assert!(matches!(feed.next_after(Some(&first)), Next::All));
    assert!(matches!(feed.next_after(Some("b.500")), Next::All));
    assert!(matches!(feed.next_after(Some(&feed.changes[3].revision)), Next::Change(_)));
    // One that is as large as all is not kept.
    let known = feed.revision.clone();
    now.pairs.iter_mut().for_each(|pair| pair.state.detail = "x".repeat(1000));
    feed.take(&now);
    assert!(matches!(feed.next_after(Some(&known)), Next::All));
}
