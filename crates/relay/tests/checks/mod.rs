//! What must hold for any messages that a peer may send: for the fuzzer, and for the test that replays its finds.

use kumade_relay::{Message, MessageAction, MessageExchange};

/// Messages one after the other, each behind a byte that says how long it is, to a near end (where the first byte is odd) or a
/// far one.
pub fn messages(data: &[u8]) {
    let Some((&side, mut rest)) = data.split_first() else { return };
    let mut exchange = if side % 2 == 1 { MessageExchange::for_near_end() } else { MessageExchange::for_far_end() };
    let (mut begun, mut ended) = (false, false);
    while let Some((&length, after)) = rest.split_first() {
        let (bytes, after) = after.split_at(usize::from(length).min(after.len()));
        rest = after;
        let Ok(message) = Message::decode(bytes) else { return };
        let encoded = message.encode();
        assert_eq!(Message::decode(&encoded).as_ref(), Ok(&message));
        let Ok(action) = exchange.receive(message) else { return };
        let is_rekeying = matches!(
            action,
            MessageAction::AnswerRekey(_) | MessageAction::FinishRekey(_) | MessageAction::SwitchReceive
        );
        assert!(!ended || is_rekeying, "nothing else follows the end");
        match action {
            MessageAction::Opened | MessageAction::Connect(_) => {
                assert!(!std::mem::replace(&mut begun, true), "it begins once")
            }
            MessageAction::Deliver(bytes) => assert!(begun && !bytes.is_empty()),
            MessageAction::ShutdownWrite => {
                assert!(begun && !exchange.is_complete());
                ended = true;
            }
            MessageAction::Refuse(_) => {
                assert!(!begun);
                ended = true;
            }
            MessageAction::AnswerRekey(_) | MessageAction::FinishRekey(_) | MessageAction::SwitchReceive => {
                assert!(begun)
            }
        }
    }
}
