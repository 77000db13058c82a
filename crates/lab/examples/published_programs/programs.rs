//! The programs of the methods' authors: which of them run at which end of a path, and what they say of it.

use anyhow::{Context, bail, ensure};
use kumade_daemon::PrivateDirectory;
use kumade_netns_testbed::Host;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A published program, which measures from the near host to the far one.
pub struct Program {
    /// As it is called on the command line.
    pub name: &'static str,
    /// Where its source is.
    pub source: &'static str,
    /// The methods of this project after the same papers.
    pub methods: &'static [&'static str],
    /// What waits at either end, …
    server_commands: &'static [(End, &'static str)],
    /// … and what is started when they do, and ends with the result. `NEAR` and `FAR` stand for the hosts' addresses.
    client_command: (End, &'static str),
    /// What it says, of its output and the other files that it has written.
    parse_output: fn(&ProgramOutput) -> Vec<ProgramEstimate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Near,
    Far,
}

/// What is available, as the program has it, in Mbit/s.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramEstimate {
    /// By which of its methods.
    pub method: &'static str,
    /// At least, …
    pub low: f64,
    /// … and at most.
    pub high: f64,
}

/// All that a program has written.
struct ProgramOutput {
    client_output: String,
    /// What is in other files.
    file_text: String,
}

/// Where its source is, and how it is called, is known from its documentation.
pub const PROGRAMS: [Program; 3] = [
    Program {
        name: "pathload",
        source: "https://www.cc.gatech.edu/fac/Constantinos.Dovrolis/bw-est/pathload.html",
        methods: &["pathload"],
        server_commands: &[(End::Near, "pathload_snd -i")],
        client_command: (End::Far, "pathload_rcv -s NEAR"),
        parse_output: parse_pathload,
    },
    Program {
        name: "pathchirp",
        source: "http://www.spin.rice.edu/Software/pathChirp/",
        methods: &["pathchirp"],
        server_commands: &[(End::Near, "pathchirp_snd"), (End::Far, "pathchirp_rcv")],
        client_command: (End::Near, "pathchirp_run -S NEAR -R FAR -t 30"),
        parse_output: parse_pathchirp,
    },
    Program {
        name: "igi",
        source: "http://www.cs.cmu.edu/~hnn/igi/",
        methods: &["igi", "ptr"],
        server_commands: &[(End::Far, "ptr-server")],
        client_command: (End::Near, "ptr-client FAR"),
        parse_output: parse_igi,
    },
];

/// The servers listen after this.
const SERVER_START_TIME: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const CLIENT_OUTPUT: &str = "client.output";
const SERVER_OUTPUT: &str = "server.output";

impl Program {
    /// The first of its files that is not in this directory, if not all are.
    pub fn missing_file(&self, directory: &Path) -> Option<PathBuf> {
        let commands = self.server_commands.iter().chain([&self.client_command]).map(|(_, command)| command);
        let mut files = commands.filter_map(|command| Some(directory.join(command.split(' ').next()?)));
        files.find(|file| !file.is_file())
    }

    /// Runs it once, with the files of this directory; for no longer than `limit`.
    ///
    /// # Errors
    /// It cannot be started, fails, takes longer, or says nothing of what is available: with its output.
    pub fn run(
        &self,
        directory: &Path,
        near: &Host,
        far: &Host,
        limit: Duration,
    ) -> anyhow::Result<Vec<ProgramEstimate>> {
        let work = PrivateDirectory::new("kumade-published").context("cannot make a directory")?;
        // A program may change to another directory before it finds its own files.
        let directory = fs::canonicalize(directory).with_context(|| format!("cannot find {}", directory.display()))?;
        let start = |(end, command): &(End, &str), output: &str| {
            let host = if *end == End::Near { near } else { far };
            let command = command.replace("NEAR", &near.v4.to_string()).replace("FAR", &far.v4.to_string());
            let mut words = command.split(' ');
            let program = directory.join(words.next().unwrap_or_default());
            let file = File::options().append(true).create(true).open(work.path().join(output))?;
            let mut started = host.namespace.command(program);
            started.args(words).current_dir(work.path()).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
            started.spawn().map(RunningProcess).with_context(|| format!("cannot start {command}"))
        };
        let servers: anyhow::Result<Vec<RunningProcess>> =
            self.server_commands.iter().map(|server| start(server, SERVER_OUTPUT)).collect();
        let _servers = servers?;
        thread::sleep(SERVER_START_TIME);
        let ended = start(&self.client_command, CLIENT_OUTPUT)?.wait(limit)?;
        let said = read_output(work.path())?;
        let Some(status) = ended else {
            bail!("it took longer than {} s: {}", limit.as_secs(), said.client_output.trim())
        };
        let found = (self.parse_output)(&said);
        ensure!(!found.is_empty(), "it said nothing of what is available ({status}): {}", said.client_output.trim());
        Ok(found)
    }
}

/// `Available bandwidth range : 33.21 - 35.43 (Mbps)`, or that it is at least or at most so much.
fn parse_pathload(said: &ProgramOutput) -> Vec<ProgramEstimate> {
    let line = said.client_output.lines().rev().find(|line| line.contains("Available bandwidth"));
    let numbers = line.map_or(Vec::new(), parse_numbers);
    let bounds = match (line, &numbers[..]) {
        (Some(line), [bound, ..]) if line.contains("least") => Some((*bound, f64::INFINITY)),
        (Some(line), [bound, ..]) if line.contains("most") => Some((0.0, *bound)),
        (_, [low, high, ..]) => Some((*low, *high)),
        _ => None,
    };
    bounds.map(|(low, high)| ProgramEstimate { method: "pathload", low, high }).into_iter().collect()
}

/// Lines of a time and an estimate; the mean of the later half, as it smooths over eleven.
fn parse_pathchirp(said: &ProgramOutput) -> Vec<ProgramEstimate> {
    let estimates: Vec<f64> = said.file_text.lines().filter_map(|line| parse_numbers(line).get(1).copied()).collect();
    let later = &estimates[estimates.len() / 2..];
    let mean = later.iter().sum::<f64>() / later.len() as f64;
    if mean.is_finite() { vec![ProgramEstimate { method: "pathchirp", low: mean, high: mean }] } else { Vec::new() }
}

/// `PTR:  30.112 Mpbs (suggested)` and `IGI:  29.847 Mpbs`.
fn parse_igi(said: &ProgramOutput) -> Vec<ProgramEstimate> {
    let after = |method: &'static str, label: &str| {
        let text = said.client_output.lines().rev().find_map(|line| line.trim().strip_prefix(label))?;
        let value = *parse_numbers(text).first()?;
        Some(ProgramEstimate { method, low: value, high: value })
    };
    [after("igi", "IGI:"), after("ptr", "PTR:")].into_iter().flatten().collect()
}

fn parse_numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// A process, which is ended when this is dropped.
struct RunningProcess(Child);

impl RunningProcess {
    /// How it ended; none if it does not within `limit`.
    fn wait(&mut self, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        loop {
            match self.0.try_wait()? {
                Some(status) => return Ok(Some(status)),
                None if begun.elapsed() >= limit => return Ok(None),
                None => thread::sleep(POLL_INTERVAL),
            }
        }
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // One that has ended by itself cannot be ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_output(directory: &Path) -> anyhow::Result<ProgramOutput> {
    let output = String::from_utf8_lossy(&fs::read(directory.join(CLIENT_OUTPUT))?).into_owned();
    let mut files = String::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_output = path.ends_with(CLIENT_OUTPUT) || path.ends_with(SERVER_OUTPUT);
        if path.is_file() && !is_output {
            files += &String::from_utf8_lossy(&fs::read(path)?);
        }
    }
    Ok(ProgramOutput { client_output: output, file_text: files })
}
