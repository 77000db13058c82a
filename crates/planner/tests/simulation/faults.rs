//! What goes wrong, and when.

use super::{Event, Frame, Node, World};
use crate::simulation::plans::{self, changed_plan};
use kumade_units::Span;
use rand::RngExt;

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Crash,
    Stop,
    CutOff,
    SetClock,
    Configure,
    Claim,
    Want,
}

impl Fault {
    /// With the mean time between two of them, in seconds.
    const ALL: [(Fault, f64); 7] = [
        (Fault::Crash, 150.0),
        (Fault::Stop, 80.0),
        (Fault::CutOff, 100.0),
        (Fault::SetClock, 200.0),
        (Fault::Configure, 600.0),
        (Fault::Claim, 100.0),
        (Fault::Want, 20.0),
    ];
}

impl World {
    pub(super) fn schedule_faults(&mut self) {
        Fault::ALL.iter().for_each(|(fault, _)| self.schedule_next(*fault));
    }

    fn schedule_next(&mut self, fault: Fault) {
        let kind = Fault::ALL.iter().find(|(other, _)| std::mem::discriminant(other) == std::mem::discriminant(&fault));
        let mean = kind.map_or(100.0, |(_, mean)| *mean);
        let after = Span::from_secs_f64(-mean * (1.0 - self.random.random::<f64>()).ln());
        self.schedule(self.now + after, Event::Fault(fault));
    }

    /// Coordinators as often as all agents together would be too often for any run; but more often than one agent.
    fn choose_node(&mut self) -> Node {
        if self.random.random_bool(0.25) {
            return Node::Coordinator(self.random.random_range(0..self.coordinators.len()));
        }
        Node::Agent(self.random.random_range(0..self.agents.len()))
    }

    pub(super) fn break_something(&mut self, fault: Fault) {
        let name = match fault {
            Fault::Crash => self.crash(),
            Fault::Stop => self.stop(),
            Fault::CutOff => self.cut_off(),
            Fault::SetClock => self.set_clock(),
            Fault::Configure => self.change_plan(),
            Fault::Claim => self.claim_host(),
            Fault::Want => self.want_run(),
        };
        *self.tally.faults.entry(name).or_default() += 1;
        self.schedule_next(fault);
    }

    fn crash(&mut self) -> &'static str {
        let node = self.choose_node();
        let down = self.log_uniform(0.1, 60.0);
        let restart = self.now + down;
        if let Node::Agent(agent) = node {
            self.observer.see_claim(plans::host(agent as u32), false);
        }
        let Some(process) = self.process(node) else { return "none" };
        if !process.is_up {
            return "none";
        }
        process.is_up = false;
        self.schedule(restart, Event::Restart(node));
        "crashes"
    }

    fn stop(&mut self) -> &'static str {
        let node = self.choose_node();
        let until = self.now + self.log_uniform(0.05, 200.0);
        let Some(process) = self.process(node) else { return "none" };
        if !process.is_up || process.is_stopped {
            return "none";
        }
        process.is_stopped = true;
        let incarnation = process.incarnation;
        self.schedule(until, Event::Resume(node, incarnation));
        "stopped processes"
    }

    /// From another node, or from all.
    fn cut_off(&mut self) -> &'static str {
        let node = self.choose_node();
        let until = self.now + self.log_uniform(0.5, 200.0);
        let mut others = self.nodes();
        others.push(Node::Store);
        others.retain(|other| *other != node);
        if self.random.random_bool(0.5) {
            others = vec![others[self.random.random_range(0..others.len())]];
        }
        for other in others {
            self.cuts.insert((node.min(other), node.max(other)), until);
        }
        if let Node::Agent(_) = node {
            // Noticed after a while, or not at all.
            let noticed = self.now + self.log_uniform(0.1, 60.0);
            if noticed < until {
                self.schedule(noticed, Event::Arrive(node, Frame::Link(false)));
                self.schedule(until, Event::Arrive(node, Frame::Link(true)));
            }
        }
        "partitions"
    }

    fn set_clock(&mut self) -> &'static str {
        let node = self.choose_node();
        let step = Span::from_secs(if self.random.random_bool(0.5) { 3600 } else { -3600 });
        if let Some(process) = self.process(node) {
            process.clock.wall_step += step;
        }
        "clock steps of 1 h"
    }

    /// Both coordinators are told, at different times.
    fn change_plan(&mut self) -> &'static str {
        self.plan = changed_plan(&mut self.random);
        for number in 0..self.coordinators.len() {
            let time = self.now + self.log_uniform(0.01, 30.0);
            self.schedule(
                time,
                Event::Arrive(Node::Coordinator(number), Frame::Configure(Box::new(self.plan.clone()))),
            );
        }
        "plan changes"
    }

    /// At a coordinator that may not lead.
    fn want_run(&mut self) -> &'static str {
        let run = self.plan.runs[self.random.random_range(0..self.plan.runs.len())].id;
        let node = Node::Coordinator(self.random.random_range(0..self.coordinators.len()));
        self.schedule(self.now, Event::Arrive(node, Frame::Wanted(run)));
        "runs asked for"
    }

    fn claim_host(&mut self) -> &'static str {
        let node = Node::Agent(self.random.random_range(0..self.agents.len()));
        let until = self.now + self.log_uniform(0.5, 60.0);
        self.schedule(self.now, Event::Arrive(node, Frame::Claim(true)));
        self.schedule(until, Event::Arrive(node, Frame::Claim(false)));
        "claims by others"
    }
}
