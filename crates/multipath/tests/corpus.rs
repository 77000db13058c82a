//! Replays the fuzzer's corpus (`fuzz/corpus/datagrams`), so that every find stays found, and gives a resequencer random
//! messages in the same way.

use crate::checks;
use crate::replay::replay;
use proptest::prelude::*;

#[test]
fn the_corpus_is_replayed() {
    replay("datagrams", checks::datagrams);
}

/// A datagram with a message that is near enough to a right one to get far.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![4 => 0u32..20, 1 => any::<u32>()];
    let predecessor = (0u32..16, prop_oneof![4 => 0u32..40, 1 => 0u32..1 << 28]);
    let predecessors = prop::collection::vec(predecessor.prop_map(|(path, counter)| path << 28 | counter), 0..4);
    let data = (0u8..4, 0u16..3, number, predecessors, 0usize..60).prop_map(|(flags, bucket, number, list, length)| {
        let head = [0x10, flags << 4 | list.len() as u8];
        let list = list.iter().flat_map(|predecessor| predecessor.to_be_bytes());
        let fixed = head.into_iter().chain(bucket.to_be_bytes()).chain(number.to_be_bytes());
        // The counter on the path, which the caller has read already.
        let fixed = fixed.chain([0; 4]);
        fixed.chain(list).chain(std::iter::repeat_n(0x45, length)).collect::<Vec<u8>>()
    });
    let noise = prop::collection::vec(any::<u8>(), 0..60);
    let message = prop_oneof![9 => data, 1 => noise];
    let path = prop_oneof![20 => 0u8..4, 1 => 16u8..20];
    (path, prop_oneof![4 => 0u8..3, 1 => any::<u8>()], any::<u8>(), message).prop_map(|(path, step, gap, message)| {
        [path, step, gap, message.len() as u8].into_iter().chain(message).collect()
    })
}

proptest! {
    #[test]
    fn any_messages_are_delivered_once_and_in_bounded_memory(records in prop::collection::vec(record(), 0..100)) {
        checks::datagrams(&records.concat());
    }
}
