use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time until a signal is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The whole terminal, which is left as it was found, whatever happens.
pub struct Screen {
    terminal: DefaultTerminal,
    /// Keys come by standard input; else `crossterm` reads them from `/dev/tty`.
    reads_stdin: bool,
}

/// What the user did. Keys without a meaning are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// q or Escape.
    Quit,
    /// Ctrl-C, which in this mode of the terminal is a key like others; or the terminal is gone.
    Interrupt,
    /// The terminal has another size.
    Resize,
}

impl Screen {
    /// Whether there is a terminal to show something on, and it is this process that the user looks at: one in the background is
    /// stopped as soon as it changes the terminal's mode.
    pub fn is_available() -> bool {
        let in_foreground = || unistd::tcgetpgrp(io::stdout()).is_ok_and(|group| group == unistd::getpgrp());
        io::stdout().is_terminal() && io::stdin().is_terminal() && in_foreground()
    }

    /// Takes the terminal.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open() -> anyhow::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore()).context("cannot use the terminal")?;
        Ok(Screen { terminal, reads_stdin: io::stdin().is_terminal() })
    }

    /// Draws all of it anew.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> anyhow::Result<()> {
        self.terminal.draw(draw).context("cannot write to the terminal")?;
        Ok(())
    }

    /// Waits for the user, or for a signal, until that time.
    ///
    /// # Errors
    /// If the terminal cannot be read.
    pub fn wait(&mut self, until: Instant, stop: &AtomicBool) -> anyhow::Result<Option<Input>> {
        wait_for_input(until, stop, self.reads_stdin).context("cannot read the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn wait_for_input(until: Instant, stop: &AtomicBool, reads_stdin: bool) -> io::Result<Option<Input>> {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        let time = left.min(POLL_INTERVAL);
        if reads_stdin && wait_for_key_or_hangup(time)? {
            return Ok(Some(Input::Interrupt));
        }
        match event::poll(if reads_stdin { Duration::ZERO } else { time }) {
            Ok(true) => {
                if let Some(input) = input_from_event(&event::read()?) {
                    return Ok(Some(input));
                }
            }
            Ok(false) if left.is_zero() => return Ok(None),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Waits for a key for so long. Returns whether the terminal has been closed: `crossterm`, which reads nothing from it then, would
/// read again without end.
fn wait_for_key_or_hangup(time: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ended = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    Ok(polled[0].revents().is_some_and(|seen| seen.intersects(ended)))
}

fn input_from_event(event: &Event) -> Option<Input> {
    match event {
        Event::Key(KeyEvent { code: KeyCode::Char('c'), modifiers, .. })
            if modifiers.contains(KeyModifiers::CONTROL) =>
        {
            Some(Input::Interrupt)
        }
        Event::Key(KeyEvent { code: KeyCode::Char('q') | KeyCode::Esc, .. }) => Some(Input::Quit),
        Event::Resize(..) => Some(Input::Resize),
        _ => None,
    }
}
