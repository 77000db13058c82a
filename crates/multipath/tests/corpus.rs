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
    let predecessor = (0u8..16, prop_oneof![4 => 0u16..40, 1 => any::<u16>()]);
    let predecessors = prop::collection::vec(predecessor, 0..4);
    let data = (0u32..7, 0u32..3, number, predecessors, 0usize..60).prop_map(|(form, bucket, number, list, length)| {
        let mut message = (form << 29 | bucket << 18 | number & 0x3_ffff).to_be_bytes().to_vec();
        let counter = list.first().map_or(0, |(_, counter)| *counter);
        match form {
            1..=4 => message.extend(counter.to_be_bytes()),
            6 => {
                message.push([0, 0x10, 0x20, 0x30][number as usize % 4] | list.len() as u8);
                list.iter().for_each(|(path, counter)| message.extend([*path, (counter >> 8) as u8, *counter as u8]));
            }
            _ => {}
        }
        message.resize(message.len() + length, 0x45);
        message
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
