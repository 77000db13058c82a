//! `kumade serve` as a process of its own.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// A port that nothing listens on. One that was free a moment ago may be another test's now.
pub const CLOSED: &str = "127.0.0.1:1";

/// Killed when dropped.
pub struct Serving {
    pub address: String,
    /// Where it reflects STAMP, if it does.
    pub reflector: Option<String>,
    child: Child,
}

impl Serving {
    pub fn start(args: &[&str]) -> Self {
        Self::launch(Command::new(assert_cmd::cargo::cargo_bin("kumade")).args(SERVE).args(args))
    }

    /// Also a reflector, on a port of the system's choice.
    pub fn with_reflector() -> Self {
        Self::start(&["--stamp", "0"])
    }

    /// On a system that grants it no more than so many descriptors.
    pub fn with_descriptors(limit: u32) -> Self {
        let program = assert_cmd::cargo::cargo_bin("kumade");
        let script = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        Self::launch(Command::new("sh").args(["-c", &script]).arg(program).args(SERVE))
    }

    fn launch(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address_behind = |line: &str, words: &str| {
            let (_, behind) = line.split_once(words)?;
            Some(behind.split(' ').next().unwrap().to_owned())
        };
        let (mut reflector, mut address) = (None, None);
        while address.is_none() {
            let line = lines.next().expect("it ended").unwrap();
            reflector = reflector.or_else(|| address_behind(&line, "reflecting STAMP on "));
            address = address_behind(&line, "listening on ");
        }
        // The server must not be stopped by a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Serving { address: address.unwrap(), reflector, child }
    }

    /// Its number.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
