//! What must hold whatever a link is asked and whatever files say: for the fuzzer, and for the test that replays its finds.

#[path = "../../../../fuzz/edited.rs"]
mod edited;

use edited::{choice, edited};
use kumade_emulator::control::Request;
use kumade_emulator::links_file::parse_links;
use kumade_emulator::schedule::Schedule;
use kumade_emulator::settings::{SETTING_KEYS, Settings, SettingsChange};
use kumade_link::Trace;
use kumade_units::{Span, Time};
use std::collections::BTreeSet;
use std::path::Path;

/// Values of settings, right for some and wrong for others.
const VALUES: &str = "0 1 -1 3 3-9 9-3 0bit 1bit 9kbit 5mbit 1gbit 100gbit unlimited 0b 1b 1500b 32kb 256mb \
    18446744073709551615b 0s 1ns 5ms 60s 1000h 0% 0.1% 100% 101% nan% 1%,25%,50%,0.1% 50mbit/32kb none 1packets 100packets \
    all tcp/80 80/reject 3/reject 5/total on";
/// Changes of a schedule that are followed.
const STEPS: usize = 200;

/// Requests to a link, as they come through its control socket. Each byte below 240 begins a setting: its direction and
/// number, then its value's; one above, a request of all that was said since the last one. Then come bytes of a request as they
/// are.
pub fn link_control(data: &[u8]) {
    let (instructions, raw) = data.split_at(data.iter().position(|&byte| byte == 255).unwrap_or(data.len()));
    let mut settings = Settings::new(&SettingsChange::default()).expect("a link that does nothing");
    let mut assignments = Vec::new();
    let mut bytes = instructions.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            0..240 => assignments.push(assignment(byte, bytes.next().unwrap_or_default(), &mut bytes)),
            _ => set(&mut settings, &request(&std::mem::take(&mut assignments))),
        }
    }
    set(&mut settings, &request(&assignments));
    set(&mut settings, &String::from_utf8_lossy(raw));
}

fn assignment(byte: u8, name: u8, bytes: &mut impl Iterator<Item = u8>) -> [String; 3] {
    let key = &SETTING_KEYS[usize::from(name) % SETTING_KEYS.len()];
    let value = bytes.next().unwrap_or_default();
    let value = match key.choices.get(usize::from(value)) {
        Some((choice, _)) => choice,
        None => choice(VALUES, value),
    };
    [["up", "down", "both"][usize::from(byte) % 3], key.name, value].map(str::to_owned)
}

fn request(assignments: &[[String; 3]]) -> String {
    serde_json::json!({ "request": "set", "change": assignments }).to_string()
}

/// As a link does with what comes through its socket.
fn set(settings: &mut Settings, text: &str) {
    let Ok(Request::Set { change }) = serde_json::from_str(text) else { return };
    let Ok(changed) = settings.change(&change) else { return };
    // What a link shows of itself makes the same link again; random numbers are given once.
    let [up, down] = changed.to_texts();
    let mut shown = SettingsChange::default();
    for (scope, text) in
        [(kumade_emulator::settings::DirectionScope::Up, up), (kumade_emulator::settings::DirectionScope::Down, down)]
    {
        if text != "no impairments" {
            shown.push_words(scope, &text).expect("it can be read again");
        }
    }
    let again = Settings::new(&shown).unwrap_or_else(|error| panic!("{shown:?}: {error}"));
    assert_eq!(again.to_texts(), changed.to_texts());
    *settings = changed;
}

const SCHEDULE: &str = "# slow, then fast\n0s rate 5mbit delay 10ms queue codel\n10s down loss 1% up rate 1mbit\n\
    1m both target 5ms jitter 1ms limit 100packets\n61s trace none rate unlimited burst 32kb peak-rate 1gbit\n90s repeat\n";

/// A schedule with edits, or, where the first byte is odd, the text that follows.
pub fn schedules(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = if first % 2 == 0 { edited(SCHEDULE, rest) } else { String::from_utf8_lossy(rest).into_owned() };
    // The files that it may name are not of this test.
    let Ok(mut schedule) = Schedule::parse(
        &text.replace("trace", "rate"),
        Path::new("/"),
        &Settings::new(&SettingsChange::default()).expect("nothing"),
    ) else {
        return;
    };
    let mut last = Span::ZERO;
    for _ in 0..STEPS {
        let Some(at) = schedule.next_change_time() else { break };
        assert!(at >= last, "no change is before the one above it");
        assert!(schedule.take_due(at).is_some());
        last = at;
    }
}

const TRACE: &str = "0\n1\n1\n4\n4\n4\n10\n1000\n";

/// A trace with edits, or, where the first byte is odd, the text that follows; and packets on a link that has it.
pub fn traces(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = if first % 2 == 0 { edited(TRACE, rest) } else { String::from_utf8_lossy(rest).into_owned() };
    let Ok(trace) = Trace::parse(&text) else { return };
    let config = kumade_link::LinkConfig {
        medium: Some(kumade_link::Medium::Trace(trace)),
        ..kumade_link::LinkConfig::default()
    };
    let Ok(config) = config.validate() else { return };
    let mut link = kumade_link::Link::new(config);
    for number in 0..100 {
        let _ = link.offer((), 40 + 13 * number, Time::from_nanos(i64::from(number) * 1_000_000));
    }
    let mut last = Time::ZERO;
    for _ in 0..1000 {
        let Some(next) = link.next_event() else { break };
        assert!(next >= last, "time goes on");
        link.advance(next);
        last = next;
        while let Some(delivery) = link.pop_due(next) {
            assert!(delivery.due <= next);
        }
    }
}

const LINKS: &str = "[[link]]\nname = \"house-1\"\ninterfaces = [\"eth1\", \"eth2\"]\nsettings = \"rate 10mbit up loss 1%\"\n\
    schedule = \"steps\"\n[[link]]\ntun = [\"a\", \"b\"]\n[[link]]\ninterfaces = ['eth3', 'eth4']\nsettings = 'delay 5ms'\n";

/// A file of links with edits, or, where the first byte is odd, the text that follows.
pub fn links_files(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = if first % 2 == 0 { edited(LINKS, rest) } else { String::from_utf8_lossy(rest).into_owned() };
    // The files that it may name are not of this test.
    let Ok(links) = parse_links(&text.replace("trace", "rate"), "links.toml", "link", Path::new("/")) else { return };
    let names: BTreeSet<_> = links.iter().map(|link| &link.config.name).collect();
    assert!(!links.is_empty() && names.len() == links.len());
    assert!(links.iter().all(|link| link.config.ports[0].name() != link.config.ports[1].name()));
}
