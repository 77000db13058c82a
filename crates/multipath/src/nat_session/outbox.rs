use super::action::NatAction;
use super::life::Life;
use super::message::{NatContent, NatMessage};
use super::statistics::NatStatistics;
use std::collections::VecDeque;

/// What is to be done, and what has been.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) statistics: NatStatistics,
    actions: VecDeque<NatAction>,
    life: Life,
    far: Option<Life>,
}

impl Outbox {
    pub(super) fn new(life: Life) -> Self {
        Outbox { statistics: NatStatistics::default(), actions: VecDeque::new(), life, far: None }
    }

    /// The life of this gateway.
    pub(super) fn life(&self) -> Life {
        self.life
    }

    /// Addresses messages to this life of the far end from now on.
    pub(super) fn set_far(&mut self, far: Life) {
        self.far = Some(far);
    }

    pub(super) fn push(&mut self, action: NatAction) {
        self.actions.push_back(action);
    }

    pub(super) fn pop(&mut self) -> Option<NatAction> {
        self.actions.pop_front()
    }

    /// Sends what was sent so many times before without an answer.
    pub(super) fn send(&mut self, content: NatContent, tries: u32) {
        self.transmit(content, tries, false);
    }

    pub(super) fn answer(&mut self, content: NatContent) {
        self.transmit(content, 0, true);
    }

    fn transmit(&mut self, content: NatContent, tries: u32, is_answer: bool) {
        let message = NatMessage { from: self.life, to: self.far, content };
        self.push(NatAction::Transmit { message, tries, is_answer });
    }
}
