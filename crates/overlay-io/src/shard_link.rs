use kumade_multipath::dataplane::ShardMessage;
use kumade_net::SetupError;
use kumade_net::tun::TunQueue;
use kumade_net::waker::{WakeReceiver, Waker, new_waker};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// How a shard tells others something, and is told.
pub(crate) struct ShardLink {
    shard: usize,
    inbox: Receiver<ShardMessage>,
    waker_receiver: WakeReceiver,
    /// Of all shards, itself included.
    outboxes: Vec<Outbox>,
}

#[derive(Clone)]
struct Outbox {
    messages: SyncSender<ShardMessage>,
    waker: Arc<Waker>,
    /// A queue of a device that was made again.
    queue: Arc<Mutex<Option<TunQueue>>>,
}

/// Messages that wait for a shard at most; packets for which there is no room are lost, as in any queue.
const MAX_QUEUED_MESSAGES: usize = 4096;
/// Messages taken in a turn.
const MAX_RECEIVED_MESSAGES: usize = 256;

/// Links among so many shards, in their order.
///
/// # Errors
/// The system refuses descriptors.
pub(crate) fn shard_links(shards: usize) -> Result<Vec<ShardLink>, SetupError> {
    let mut outboxes = Vec::new();
    let mut inboxes = Vec::new();
    for _ in 0..shards {
        let waker = new_waker().map_err(|error| SetupError::new("create a wake-up socket between threads", error));
        let ((waker, receiver), (messages, inbox)) = (waker?, sync_channel(MAX_QUEUED_MESSAGES));
        outboxes.push(Outbox { messages, waker: Arc::new(waker), queue: Arc::default() });
        inboxes.push((inbox, receiver));
    }
    Ok(inboxes
        .into_iter()
        .zip(0..)
        .map(|((inbox, rung), shard)| ShardLink { shard, inbox, waker_receiver: rung, outboxes: outboxes.clone() })
        .collect())
}

impl ShardLink {
    /// Readable when there may be a message.
    pub(crate) fn source(&self) -> BorrowedFd<'_> {
        self.waker_receiver.as_fd()
    }

    /// What others have told, a bounded number of messages.
    pub(crate) fn receive(&self) -> impl Iterator<Item = ShardMessage> {
        self.waker_receiver.clear();
        let mut taken = 0;
        std::iter::from_fn(move || {
            taken += 1;
            if taken > MAX_RECEIVED_MESSAGES {
                // There may be more.
                self.outboxes.iter().for_each(|shard| shard.waker.wake());
                return None;
            }
            self.inbox.try_recv().ok()
        })
    }

    /// How many shards there are.
    pub(crate) fn shard_count(&self) -> usize {
        self.outboxes.len()
    }

    /// Another shard has this queue from now on.
    pub(crate) fn hand_over_queue(&self, shard: usize, queue: TunQueue) {
        if let Some(outbox) = self.outboxes.get(shard) {
            *outbox.queue.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
            outbox.waker.wake();
        }
    }

    /// The queue that this shard was handed.
    pub(crate) fn take_queue(&self) -> Option<TunQueue> {
        self.outboxes[self.shard].queue.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Tells others. Returns how many messages found no room.
    pub(crate) fn send(&self, messages: Vec<(usize, ShardMessage)>) -> u64 {
        let mut refused = 0;
        let mut told = vec![false; self.outboxes.len()];
        for (shard, message) in messages {
            let Some(outbox) = self.outboxes.get(shard) else { continue };
            match outbox.messages.try_send(message) {
                Ok(()) => told[shard] = true,
                Err(_) => refused += 1,
            }
        }
        let told = self.outboxes.iter().zip(told).filter(|(_, told)| *told);
        told.for_each(|(shard, _)| shard.waker.wake());
        refused
    }
}
