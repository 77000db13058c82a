use super::action::NatAction;
use super::incarnation::Incarnation;
use super::message::{NatContent, NatMessage};
use super::statistics::NatStatistics;
use std::collections::VecDeque;

/// What is to be done, and what has been.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) statistics: NatStatistics,
    actions: VecDeque<NatAction>,
    instance: Incarnation,
    remote_instance: Option<Incarnation>,
}

impl Outbox {
    pub(super) fn new(life: Incarnation) -> Self {
        Outbox { statistics: NatStatistics::default(), actions: VecDeque::new(), instance: life, remote_instance: None }
    }

    /// The life of this gateway.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.instance
    }

    /// Addresses messages to this life of the far end from now on.
    pub(super) fn set_peer_incarnation(&mut self, far: Incarnation) {
        self.remote_instance = Some(far);
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

    pub(super) fn send_answer(&mut self, content: NatContent) {
        self.transmit(content, 0, true);
    }

    fn transmit(&mut self, content: NatContent, tries: u32, is_answer: bool) {
        let message = NatMessage { sender: self.instance, receiver: self.remote_instance, content };
        self.push(NatAction::Transmit { message, tries, is_answer });
    }
}
