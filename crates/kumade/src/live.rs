//! What a running program does, on the whole terminal, renewed as it says more.

pub mod history;
pub mod panel;
pub mod screen;

use anyhow::Context;
use history::{History, Snapshot};
use kumade_daemon::signals;
use ratatui::Frame;
use screen::{Input, Screen};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time between two questions to a program, which renews its answer as often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Draws what `ask` returns until q, Ctrl-C or a signal. A program that no longer answers is asked again, and what it said last
/// stays with the reason.
///
/// # Errors
/// If it does not answer at the beginning, or the terminal cannot be used.
pub fn run_live_view<T: Snapshot>(
    ask: impl Fn() -> anyhow::Result<T>,
    draw: impl Fn(&mut Frame<'_>, &History<T>),
) -> anyhow::Result<()> {
    let mut history = History::new(ask()?);
    let stop = signals::termination_flag().context("cannot listen for Ctrl-C")?;
    let mut screen = Screen::open()?;
    loop {
        let asked = Instant::now();
        while asked.elapsed() < POLL_INTERVAL {
            screen.draw(|frame| draw(frame, &history))?;
            let input = screen.wait(asked + POLL_INTERVAL, &stop)?;
            if stop.load(Ordering::Relaxed) || matches!(input, Some(Input::Quit | Input::Interrupt)) {
                return Ok(());
            }
        }
        match ask() {
            Ok(status) => history.push(status),
            Err(error) => history.set_problem(format!("{error:#}")),
        }
    }
}
