use crate::message::{ConnectRefusal, Message};
use crate::target::Target;
use thiserror::Error;

/// Which messages of a carried connection may come next, and what each of them asks for; the connection may be half-closed
/// (RFC 9293 §3.6). One for each end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageExchange {
    phase: Phase,
    has_sent_end: bool,
    has_received_end: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The near end has asked, and waits for the answer.
    AwaitingAnswer,
    /// The far end waits to be asked.
    AwaitingOpen,
    /// Bytes pass.
    Open,
    /// Nothing may come any more.
    Refused,
}

/// What a message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageAction<'m> {
    /// Nothing: the far end is connected.
    Opened,
    /// Connect there, and answer.
    Connect(Target),
    /// Write these bytes to the connection.
    Deliver(&'m [u8]),
    /// No more bytes follow: end that direction of the connection.
    ShutdownWrite,
    /// Reset the connection: the far end could not connect.
    Refuse(ConnectRefusal),
    /// Answer this public key with another, and send under the new key then.
    AnswerRekey([u8; 32]),
    /// What follows is under the new key. Say that what is sent is so, too, and send it so.
    FinishRekey([u8; 32]),
    /// What follows is under the new key.
    SwitchReceive,
}

/// A message that may not come now: the stream is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the peer sent a message out of its turn")]
pub struct UnexpectedMessage;

impl MessageExchange {
    /// Of the near end, which sends [`Message::Open`] first. It may send data before it is answered.
    pub fn for_near_end() -> Self {
        MessageExchange { phase: Phase::AwaitingAnswer, has_sent_end: false, has_received_end: false }
    }

    /// Of the far end. Once it is asked to connect, no message is to be passed in until it is connected.
    pub fn for_far_end() -> Self {
        MessageExchange { phase: Phase::AwaitingOpen, ..MessageExchange::for_near_end() }
    }

    /// What a message that came asks for.
    ///
    /// # Errors
    /// It may not come now.
    pub fn receive<'m>(&mut self, message: Message<'m>) -> Result<MessageAction<'m>, UnexpectedMessage> {
        match (self.phase, message) {
            (Phase::AwaitingAnswer, Message::Opened) => {
                self.phase = Phase::Open;
                Ok(MessageAction::Opened)
            }
            (Phase::AwaitingAnswer, Message::Refused(refusal)) => {
                self.phase = Phase::Refused;
                Ok(MessageAction::Refuse(refusal))
            }
            (Phase::AwaitingOpen, Message::Open(target)) => {
                self.phase = Phase::Open;
                Ok(MessageAction::Connect(target))
            }
            (Phase::Open, Message::Data(bytes)) if !self.has_received_end => Ok(MessageAction::Deliver(bytes)),
            (Phase::Open, Message::End) if !self.has_received_end => {
                self.has_received_end = true;
                Ok(MessageAction::ShutdownWrite)
            }
            // Whose turn it is, the keys themselves know; the other direction may go on for long.
            (Phase::Open, Message::RekeyOffer(key)) => Ok(MessageAction::AnswerRekey(key)),
            (Phase::Open, Message::RekeyAnswer(key)) => Ok(MessageAction::FinishRekey(key)),
            (Phase::Open, Message::Rekeyed) => Ok(MessageAction::SwitchReceive),
            _ => Err(UnexpectedMessage),
        }
    }

    /// Whether bytes pass: the far end has said that it is connected, or was asked to connect.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Notes that [`Message::End`] was sent.
    pub fn record_end_sent(&mut self) {
        self.has_sent_end = true;
    }

    /// Whether this end has sent its last bytes.
    pub fn has_sent_end(&self) -> bool {
        self.has_sent_end
    }

    /// Whether both directions have ended: the stream may be closed.
    pub fn is_complete(&self) -> bool {
        self.has_sent_end && self.has_received_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target() -> Target {
        "10.2.0.7:22".parse().unwrap()
    }

    #[test]
    fn each_direction_ends_by_itself() {
        let (mut near, mut far) = (MessageExchange::for_near_end(), MessageExchange::for_far_end());
        assert_eq!(far.receive(Message::Open(target())), Ok(MessageAction::Connect(target())));
        assert_eq!(far.receive(Message::Data(b"request")), Ok(MessageAction::Deliver(b"request")));
        near.record_end_sent();
        assert_eq!(far.receive(Message::End), Ok(MessageAction::ShutdownWrite));
        assert_eq!(far.receive(Message::Data(b"more")), Err(UnexpectedMessage));
        assert_eq!(near.receive(Message::Opened), Ok(MessageAction::Opened));
        assert_eq!(near.receive(Message::Data(b"answer")), Ok(MessageAction::Deliver(b"answer")));
        assert!(!near.is_complete() && !far.is_complete());
        far.record_end_sent();
        assert_eq!(near.receive(Message::End), Ok(MessageAction::ShutdownWrite));
        assert!(near.is_complete() && far.is_complete());
    }

    #[test]
    fn nothing_comes_after_a_refusal() {
        let mut near = MessageExchange::for_near_end();
        assert_eq!(
            near.receive(Message::Refused(ConnectRefusal::NotAllowed)),
            Ok(MessageAction::Refuse(ConnectRefusal::NotAllowed))
        );
        assert_eq!(near.receive(Message::Data(b"x")), Err(UnexpectedMessage));
        assert_eq!(near.receive(Message::Opened), Err(UnexpectedMessage));
    }

    fn message() -> impl Strategy<Value = Message<'static>> {
        prop_oneof![
            Just(Message::Open(target())),
            Just(Message::Opened),
            Just(Message::Refused(ConnectRefusal::Refused)),
            Just(Message::Data(b"x")),
            Just(Message::End),
            Just(Message::RekeyOffer([7; 32])),
            Just(Message::RekeyAnswer([7; 32])),
            Just(Message::Rekeyed),
        ]
    }

    proptest! {
        /// Whatever a peer sends: it is connected for once at most, nothing is delivered before that or after the end.
        #[test]
        fn a_peer_can_do_nothing_out_of_turn(messages in prop::collection::vec(message(), 0..12), is_near: bool) {
            let mut exchange = if is_near { MessageExchange::for_near_end() } else { MessageExchange::for_far_end() };
            let actions: Vec<_> = messages.into_iter().filter_map(|message| exchange.receive(message).ok()).collect();
            let place = |of: fn(&MessageAction<'_>) -> bool| actions.iter().position(of);
            let begins = |action: &MessageAction<'_>| matches!(action, MessageAction::Opened | MessageAction::Connect(_) | MessageAction::Refuse(_));
            prop_assert!(actions.iter().filter(|action| begins(action)).count() <= 1);
            prop_assert!(actions.first().is_none_or(begins));
            let end = place(|action| *action == MessageAction::ShutdownWrite);
            let is_rekeying = |action: &MessageAction<'_>| {
                matches!(action, MessageAction::AnswerRekey(_) | MessageAction::FinishRekey(_) | MessageAction::SwitchReceive)
            };
            prop_assert!(end.is_none_or(|end| actions[end + 1..].iter().all(is_rekeying)));
            let refused = place(|action| matches!(action, MessageAction::Refuse(_)));
            prop_assert!(refused.is_none_or(|refused| refused + 1 == actions.len()));
        }
    }
}
