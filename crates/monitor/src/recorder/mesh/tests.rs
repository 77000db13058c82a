use super::*;
use crate::config::{MonitorConfig, RoleConfig};
use crate::status::MonitorStatus;
use kumade_daemon::PrivateDirectory;
use kumade_noise_session::PresharedKey;
use kumade_planner::Heartbeat;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use tokio::sync::watch;

/// A coordinator of three agents without a network: `a` probes `bb` and `ccc`, which nobody reaches from elsewhere.
struct Bench {
    recorder: Recorder,
    commands: Receiver<MeshCommand>,
    _directory: PrivateDirectory,
}

const FAR: &str = "192.0.2.1:5000";

fn path(peer: u32) -> PeerPath {
    PeerPath::new(peer, None)
}

fn config(directory: &PrivateDirectory, more: &str) -> MonitorConfig {
    let mut text = format!(
        "[monitor]\nrole = \"coordinator\"\nkey = \"k\"\narchive = {:?}\n[mesh]\nmeasure = \"10min\"\n",
        directory.path()
    );
    for (number, id, address) in [(1, "a", ""), (2, "bb", "address = \"bb.example\"\n"), (3, "ccc", "")] {
        text +=
            &format!("[[agent]]\nid = \"{id}\"\npublic-key = \"{}\"\n{address}", format!("{number:02x}").repeat(32));
    }
    text += more;
    match RoleConfig::from_toml(&text, "m.toml", &|_| Ok(PresharedKey::from_bytes([7; 32]))).unwrap() {
        RoleConfig::Monitor(config) => *config,
        RoleConfig::Agent(agent) => panic!("{agent:?}"),
    }
}

impl Bench {
    fn new() -> Self {
        Self::with("")
    }

    fn with(more: &str) -> Self {
        let directory = PrivateDirectory::new("kumade-coordinator").unwrap();
        Self::open(config(&directory, more), directory)
    }

    fn open(config: MonitorConfig, directory: PrivateDirectory) -> Self {
        let (status, _) = watch::channel(Arc::new(MonitorStatus::empty("here")));
        let mut recorder = Recorder::open(config, None, status, mpsc::sync_channel(1).0).unwrap();
        let (commands, inbox, _) = MeshCommands::new().unwrap();
        recorder.set_mesh_commands(commands);
        let mut bench = Bench { recorder, commands: inbox, _directory: directory };
        for agent in 0..3 {
            let address = FAR.parse().unwrap();
            bench.recorder.take_mesh_report(MeshReport::Connected { agent, address, version: VERSION });
        }
        bench
    }

    fn host(&self, agent: usize) -> u32 {
        self.recorder.mesh.as_ref().unwrap().agents[agent].host.0
    }

    fn receive(&mut self, agent: usize, frame: AgentFrame) {
        self.recorder.take_agent_frame(agent, frame, clock::monotonic(), clock::realtime());
    }

    /// An agent delivers so many results of probes to a peer, all of the last second.
    fn deliver(&mut self, agent: usize, sequence: u64, peer: u32, count: usize) {
        let now = clock::monotonic();
        let result =
            WireResult(now - Span::from_millis(500), Some(Span::from_millis(3)), None, false, WireLoss::Unknown);
        let probes = vec![PeerResults { path: path(peer), duplicates: 0, results: vec![result; count] }];
        let batch = crate::mesh::frame::Batch { instance: 5, sequence, probes, ..Default::default() };
        self.receive(agent, AgentFrame::Batch(Delivery { stamp: now, batch }));
    }

    /// An agent tells that it did not run for some seconds.
    fn deliver_pause(&mut self, agent: usize) {
        let now = clock::monotonic();
        let pause = Some(crate::mesh::frame::Pause { from: now - Span::from_secs(7), to: now });
        let batch = crate::mesh::frame::Batch { instance: 5, sequence: 1, pause, ..Default::default() };
        self.receive(agent, AgentFrame::Batch(Delivery { stamp: now, batch }));
    }

    /// The ends of each pair that the archive knows, and its gaps.
    fn gap_counts(&mut self) -> Vec<(u32, u32, usize)> {
        let pairs: Vec<_> = self.recorder.archive.pairs().map(|pair| (pair.id, pair.source.0, pair.target.0)).collect();
        let mut gaps = |pair| self.recorder.archive.read().gaps(pair, Time::ZERO..clock::realtime()).unwrap().len();
        pairs.into_iter().map(|(pair, source, target)| (source, target, gaps(pair))).collect()
    }

    fn commands(&self) -> Vec<MeshCommand> {
        self.commands.try_iter().collect()
    }

    fn acknowledged(&mut self) -> Vec<u64> {
        self.recorder.commit(clock::realtime());
        let number = |command| match command {
            MeshCommand::Send { frame: CoordinatorFrame::Acknowledged { sequence, .. }, .. } => Some(sequence),
            _ => None,
        };
        self.commands().into_iter().filter_map(number).collect()
    }
}

#[test]
fn a_hostile_agent_writes_results_of_its_own_pairs_alone() {
    let mut bench = Bench::new();
    let [a, bb, ccc] = [0, 1, 2].map(|agent| bench.host(agent));
    // Who begins: `a` and `ccc`, since nobody reaches them.
    let ids: Vec<_> = bench.recorder.pairs.iter().map(|pair| pair.target.id.clone()).collect();
    assert_eq!(ids, ["a:bb", "ccc:bb"]);
    let address = FAR.parse().unwrap();
    for (agent, peer) in [(0, bb), (2, bb), (1, a), (0, ccc), (0, 9999)] {
        bench.receive(agent, AgentFrame::Address { path: path(peer), address });
    }
    bench.deliver(0, 1, bb, 3);
    // Those of `bb` to `a` are none that it was asked for; neither are these.
    bench.deliver(1, 1, a, 0);
    bench.deliver(0, 2, ccc, 3);
    bench.deliver(0, 3, a, 3);
    bench.deliver(0, 4, 9999, 3);
    bench.recorder.commit(clock::realtime());
    assert_eq!(bench.recorder.archive.open_samples(), 3);
    let pairs: Vec<_> = bench.recorder.archive.pairs().map(|pair| (pair.source.0, pair.target.0)).collect();
    assert_eq!(pairs, [(a, bb), (ccc, bb)]);
}

#[test]
fn an_agent_that_delivers_more_than_it_was_asked_for_is_cut_off() {
    let mut bench = Bench::new();
    let bb = bench.host(1);
    bench.receive(0, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    let mut sequence = 0;
    let is_cut_off = |bench: &Bench| {
        bench.commands().iter().any(|command| matches!(command, MeshCommand::Disconnect { agent: 0, .. }))
    };
    // What may come after a day's absence, and no more: one and a half probes a second.
    let day = 129_600;
    while sequence < 100 {
        bench.deliver(0, sequence, bb, 4000);
        sequence += 1;
        if is_cut_off(&bench) {
            break;
        }
    }
    assert_eq!(sequence, 1 + day / 4000);
    // Another one is heard all the same.
    bench.receive(2, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    bench.deliver(2, 1, bb, 10);
    assert!(!is_cut_off(&bench));
    // What is no report is none of its business, either.
    let now = clock::monotonic();
    let run = RunResult { path: path(bb), began: now, ended: now, document: "[1]".to_owned() };
    let batch = crate::mesh::frame::Batch { instance: 5, sequence: 2, runs: vec![run], ..Default::default() };
    bench.receive(2, AgentFrame::Batch(Delivery { stamp: now, batch }));
    assert!(bench.commands().iter().any(|command| matches!(command, MeshCommand::Disconnect { agent: 2, .. })));
}

#[test]
fn what_an_agent_says_in_words_is_kept_up_to_a_rate() {
    let mut bench = Bench::new();
    let bb = bench.host(1);
    let before = bench.recorder.events.len();
    for number in 0..1000 {
        bench.receive(0, AgentFrame::NotSent { path: path(bb), reason: format!("{number} {}", "x".repeat(5000)) });
    }
    let kept = &bench.recorder.events[before..];
    assert!(!kept.is_empty() && kept.len() <= 20, "{}", kept.len());
    assert!(kept.iter().all(|event| event.text.chars().count() < 300));
}

#[test]
fn a_batch_is_acknowledged_once_it_is_on_the_disk_and_again_when_it_comes_again() {
    let mut bench = Bench::new();
    let bb = bench.host(1);
    bench.receive(0, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    bench.commands();
    bench.deliver(0, 7, bb, 3);
    assert!(!bench.commands().iter().any(|command| matches!(command, MeshCommand::Send { .. })), "not yet");
    bench.deliver(0, 7, bb, 3);
    assert_eq!(bench.acknowledged(), [7]);
    bench.deliver(0, 7, bb, 3);
    assert_eq!((bench.acknowledged(), bench.recorder.archive.open_samples()), (vec![7], 3));
}

#[test]
fn what_has_no_place_in_the_archive_yet_is_not_acknowledged() {
    let mut bench = Bench::new();
    let bb = bench.host(1);
    // Nobody knows by which version of IP, and thus of which pair.
    bench.deliver(0, 7, bb, 3);
    assert!(bench.acknowledged().is_empty());
    bench.receive(0, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    bench.deliver(0, 7, bb, 3);
    assert_eq!((bench.acknowledged(), bench.recorder.archive.open_samples()), (vec![7], 3));
}

#[test]
fn a_sample_is_as_old_as_its_agent_says_and_never_from_the_future() {
    let now = Time::ZERO + Span::from_secs(1000);
    let at_agent = Time::ZERO + Span::from_secs(50);
    let shift = now - at_agent;
    let sent = |time: Time| probe_result(&WireResult(time, None, None, false, WireLoss::Unknown), shift, now).sent;
    assert_eq!(sent(at_agent - Span::from_secs(3)), now - Span::from_secs(3));
    assert_eq!(sent(at_agent + Span::from_secs(3600)), now);
}

#[test]
fn both_ends_of_a_run_are_given_the_same_key_and_the_answering_one_is_told_of_its_end() {
    let mut bench = Bench::new();
    let now = clock::monotonic();
    let mut granted: Vec<(usize, RunGrant)> = Vec::new();
    // Agents that live; a cycle passes in virtual time.
    for second in 0..1200 {
        let now = now + Span::from_secs(second);
        for agent in 0..3 {
            let heartbeat = Heartbeat { instance: 1, stamp: now, held: Vec::new(), claim: None, unavailable: None };
            let message = AgentMessage::Heartbeat(heartbeat);
            bench.recorder.take_planner_message(agent, message, now, clock::realtime());
        }
        for command in bench.commands() {
            if let MeshCommand::Send { agent, frame: CoordinatorFrame::Grant(grant) } = command {
                granted.push((agent, grant));
            }
        }
        if granted.len() >= 2 {
            break;
        }
    }
    let [(first, one), (second, other)] = &granted[..2] else { panic!("{granted:?}") };
    let (initiator, responder) = if one.grant.role == Role::Initiator { (first, second) } else { (second, first) };
    assert_eq!((one.grant.token, &one.key, *responder), (other.grant.token, &other.key, 1));
    assert!(PresharedKey::parse(&one.key).is_ok());
    let token = one.grant.token;
    assert_ne!(bench.recorder.mesh.as_ref().unwrap().key("run 1.99"), one.key);
    let ended = AgentMessage::Ended { token, outcome: kumade_planner::Outcome::Finished, took: Span::from_secs(8) };
    // The answering end cannot say it in the other's place.
    bench.recorder.take_planner_message(*responder, ended.clone(), now, clock::realtime());
    let is_told = |bench: &Bench| {
        bench
            .commands()
            .iter()
            .any(|command| matches!(command, MeshCommand::Send { agent: 1, frame: CoordinatorFrame::Finished { .. } }))
    };
    assert!(!is_told(&bench));
    bench.recorder.take_planner_message(*initiator, ended, now, clock::realtime());
    assert!(is_told(&bench));
}

/// A coordinator that was started anew had the pause of an agent before any address of its peers: it was acknowledged, and no pair had a gap.
#[test]
fn a_pause_of_an_agent_is_taken_once_there_is_a_pair_to_write_it_for() {
    let mut bench = Bench::new();
    let bb = bench.host(1);
    bench.deliver_pause(0);
    assert!(bench.acknowledged().is_empty());
    bench.receive(0, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    bench.deliver_pause(0);
    assert_eq!((bench.acknowledged(), bench.gap_counts()), (vec![1], vec![(bench.host(0), bb, 1)]));
}

/// It was once lost for pairs whose address was told after it had come.
#[test]
fn a_pause_of_an_agent_is_written_for_pairs_whose_address_is_told_later() {
    let public_key = "04".repeat(32);
    let mut bench =
        Bench::with(&format!("[[agent]]\nid = \"dd\"\npublic-key = \"{public_key}\"\naddress = \"dd.example\"\n"));
    let [a, bb, dd] = [0, 1, 3].map(|agent| bench.host(agent));
    bench.receive(0, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    bench.deliver_pause(0);
    assert_eq!(bench.acknowledged(), [1]);
    bench.receive(0, AgentFrame::Address { path: path(dd), address: FAR.parse().unwrap() });
    // It comes again, since the acknowledgement was lost.
    bench.deliver_pause(0);
    assert_eq!((bench.acknowledged(), bench.gap_counts()), (vec![1], vec![(a, bb, 1), (a, dd, 1)]));
}

#[test]
fn an_agent_whose_numbers_are_as_great_as_can_be_does_no_harm() {
    let mut bench = Bench::new();
    let bb = bench.host(1);
    bench.receive(0, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    let [least, most] = [i64::MIN, i64::MAX];
    let (early, late) = (Time::from_nanos(least), Time::from_nanos(most));
    let mut sequence = 0;
    for (stamp, sent) in [(early, late), (late, early), (late, late), (early, early)] {
        for span in [Span::from_nanos(least), Span::from_nanos(most)] {
            let result = WireResult(sent, Some(span), Some((span, span, span)), true, WireLoss::Unknown);
            let probes = vec![PeerResults { path: path(bb), duplicates: u64::MAX, results: vec![result; 3] }];
            let run =
                RunResult { path: path(bb), began: sent, ended: stamp, document: r#"{"schema": "x"}"#.to_owned() };
            let pause = Some(crate::mesh::frame::Pause { from: stamp, to: sent });
            let batch = crate::mesh::frame::Batch {
                instance: u64::MAX,
                sequence,
                probes,
                runs: vec![run],
                pause,
                ..Default::default()
            };
            sequence = if sequence == 0 { u64::MAX - 20 } else { sequence + 1 };
            bench.receive(0, AgentFrame::Batch(Delivery { stamp, batch }));
            bench.receive(0, AgentFrame::ClockStep { step: span });
            bench.recorder.commit(clock::realtime());
        }
    }
    bench.deliver(0, 77, bb, 2);
    bench.commands();
    assert_eq!(bench.acknowledged(), [77]);
    bench.recorder.publish(clock::realtime());
}

#[test]
fn an_agent_that_says_too_much_is_cut_off_before_the_planner_looks_at_it() {
    let is_cut_off =
        |bench: &Bench| bench.commands().iter().any(|command| matches!(command, MeshCommand::Disconnect { .. }));
    let heartbeat = |held: usize| {
        let held = (0..held).map(|number| Token { epoch: 1, number: number as u64 }).collect();
        AgentFrame::Planner {
            message: AgentMessage::Heartbeat(Heartbeat {
                instance: 1,
                stamp: clock::monotonic(),
                held,
                claim: None,
                unavailable: None,
            }),
        }
    };
    let mut bench = Bench::new();
    bench.receive(0, heartbeat(2));
    assert!(!is_cut_off(&bench));
    bench.receive(0, heartbeat(10_000));
    assert!(is_cut_off(&bench));
    let mut bench = Bench::new();
    (0..1000).for_each(|_| bench.receive(0, heartbeat(0)));
    assert!(is_cut_off(&bench));
}

#[test]
fn what_two_agents_lose_to_the_same_one_has_one_cause() {
    let mut bench = Bench::new();
    let bb = bench.host(1);
    let (now, utc) = (clock::monotonic(), clock::realtime());
    for agent in [0, 2] {
        bench.receive(agent, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
        // Answered until half a minute ago.
        let result = |seconds: i64| {
            let trip = (seconds > 30).then_some(Span::from_millis(3));
            WireResult(now - Span::from_secs(seconds), trip, None, false, WireLoss::Unknown)
        };
        let probes = vec![PeerResults { path: path(bb), duplicates: 0, results: (5..40).rev().map(result).collect() }];
        let batch = crate::mesh::frame::Batch { instance: 5, sequence: 1, probes, ..Default::default() };
        bench.receive(agent, AgentFrame::Batch(Delivery { stamp: now, batch }));
    }
    (0..20).for_each(|second| bench.recorder.update_alerts(now + Span::from_secs(second), utc));
    let standing = bench.recorder.alerter.status(utc).standing;
    assert_eq!(standing.len(), 1, "{standing:?}");
    assert_eq!(standing[0].pairs, ["a:bb", "ccc:bb"]);
    assert!(standing[0].text.contains("bb"), "{}", standing[0].text);
}

#[test]
fn nothing_is_measured_over_a_link_whose_budget_is_used_up_also_after_a_restart() {
    let link = "[[link]]\nname = \"sea\"\nagents = [\"a\"]\nbytes-per-day = \"1MB\"\n";
    let mut bench = Bench::with(link);
    let bb = bench.host(1);
    let now = clock::monotonic();
    bench.receive(0, AgentFrame::Address { path: path(bb), address: FAR.parse().unwrap() });
    let document = r#"{"schema": "x", "up": {"bytes_sent": 400000, "capacity": {"bytes_sent": 100000}}}"#.to_owned();
    let run = RunResult { path: path(bb), began: now, ended: now, document };
    for sequence in 0..2 {
        let runs = vec![run.clone()];
        let batch = crate::mesh::frame::Batch { instance: 5, sequence, runs, ..Default::default() };
        bench.receive(0, AgentFrame::Batch(Delivery { stamp: now, batch }));
    }
    let is_full = |bench: &Bench| {
        let links = bench.recorder.link_status();
        assert_eq!((links[0].used_bytes, links[0].bytes_per_day), (1_000_000, Some(1_000_000)));
    };
    is_full(&bench);
    let config = bench.recorder.config.clone();
    let Bench { recorder, _directory, .. } = bench;
    drop(recorder);
    let mut bench = Bench::open(config, _directory);
    is_full(&bench);
    let now = clock::monotonic();
    let mut granted = Vec::new();
    for second in 0..1300 {
        let now = now + Span::from_secs(second);
        for agent in 0..3 {
            let heartbeat = Heartbeat { instance: 1, stamp: now, held: Vec::new(), claim: None, unavailable: None };
            let message = AgentMessage::Heartbeat(heartbeat);
            bench.recorder.take_planner_message(agent, message, now, clock::realtime());
        }
        bench.recorder.follow_schedule(now, clock::realtime());
        for command in bench.commands() {
            if let MeshCommand::Send { agent, frame: CoordinatorFrame::Grant(_) } = command {
                granted.push(agent);
            }
        }
    }
    // The other pair is measured.
    assert!(granted.contains(&2) && !granted.contains(&0), "{granted:?}");
    let missed = bench.recorder.schedule_status(now + Span::from_secs(1300)).missed;
    let is_named = |missed: &crate::status::MissedRun| {
        missed.pair == "a:bb" && missed.reason.starts_with("the link sea is not free: the budget of")
    };
    assert!(missed.iter().any(is_named), "{missed:?}");
}
