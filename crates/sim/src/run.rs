use crate::VirtualPath;
use estimate::{Method, Outcome, Step};
use units::{Rate, Span, Time};

/// A finished measurement on a virtual path.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What the method found.
    pub outcome: Outcome,
    /// What was so, from the first packet to the last.
    pub truth: Rate,
    /// When the first packet left.
    pub started: Time,
    /// When the last one came.
    pub ended: Time,
    /// IP packets sent.
    pub packets: u64,
    /// IP bytes sent.
    pub bytes: u64,
}

/// Measures the path; what came of a train is known to the sender a path's delay after the last packet.
pub fn measure(method: &mut dyn Method, path: &mut VirtualPath) -> Run {
    let mut started = None;
    let mut ended = path.now();
    let (mut packets, mut bytes) = (0, 0);
    loop {
        match method.next(path.now()) {
            Step::Send { wait, train } => {
                // The wait counts from the last packet of the train before; what came of it may be known later only.
                path.wait((ended + wait - path.now()).max(Span::ZERO));
                started.get_or_insert(path.now());
                packets += u64::from(train.count());
                bytes += train.bytes();
                let record = path.send(&train);
                ended = path.now();
                path.wait(path.delay());
                method.record(&record);
            }
            Step::Done(outcome) => {
                path.settle();
                let started = started.unwrap_or(ended);
                return Run { outcome, truth: path.truth(started, ended), started, ended, packets, bytes };
            }
        }
    }
}
