//! The status of a gateway on the whole terminal, renewed each second.

mod draw;
mod history;

use anyhow::Context;
use draw::draw;
use gateway::status::Status;
use history::History;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use service::signals;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time between two questions to the gateway, which renews its status as often.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time until a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Leaves the terminal as it was found, whatever happens.
struct TerminalGuard;

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows what `ask` returns until q, Ctrl-C or a signal. A gateway that no longer answers is asked again, and what it said
/// last stays with the reason.
///
/// # Errors
/// If it does not answer at the beginning, or the terminal cannot be used.
pub fn run(ask: impl Fn() -> anyhow::Result<Status>) -> anyhow::Result<()> {
    let mut history = History::new(ask()?);
    let stop = signals::termination().context("cannot listen for Ctrl-C")?;
    let _guard = TerminalGuard;
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    loop {
        let asked = Instant::now();
        while asked.elapsed() < INTERVAL {
            terminal.draw(|frame| draw(frame, &history)).context("cannot write to the terminal")?;
            if is_ended(&stop, asked + INTERVAL).context("cannot read the terminal")? {
                return Ok(());
            }
        }
        match ask() {
            Ok(status) => history.push(status),
            Err(error) => history.fail(format!("{error:#}")),
        }
    }
}

/// Waits for the user or a signal to end it, until that time, or until the terminal has another size.
fn is_ended(stop: &AtomicBool, until: Instant) -> io::Result<bool> {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        match event::poll(left.min(POLL_INTERVAL)) {
            Ok(true) => match event::read()? {
                Event::Key(key) if ends(&key) => return Ok(true),
                Event::Resize(..) => return Ok(false),
                _ => {}
            },
            Ok(false) if left.is_zero() => return Ok(false),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// In this mode of the terminal, Ctrl-C is a key like others.
fn ends(key: &KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || (is_control && key.code == KeyCode::Char('c'))
}
