use std::cell::RefCell;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Packet buffers of one thread, to be used again: a thread that has warmed up allocates nothing per packet. Short packets
/// have short buffers, so that the memory held for many packets is close to their sizes.
#[derive(Debug, Clone, Default)]
pub struct BufferPool(Rc<RefCell<SpareBuffers>>);

#[derive(Debug, Default)]
struct SpareBuffers {
    by_class: [Vec<Vec<u8>>; BufferPool::CLASS_BYTES.len()],
    /// What all of them hold.
    bytes: usize,
}

/// The bytes of a packet, in a vector that goes back to its pool when this is dropped, wherever that is.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    pool: BufferPool,
}

impl BufferPool {
    /// What buffers hold, in bytes: but for short packets, twice as much as they need at most. A longer one is made for its packet alone.
    const CLASS_BYTES: [usize; 7] = [192, 1600, 4608, 9216, 18_432, 36_864, 65_536];
    /// What the spare buffers of a thread hold at most: as much as was in use at once, up to the limit of a queue of packets.
    const MAX_SPARE_BYTES: usize = 16 << 20;

    /// An empty buffer with room for so many bytes.
    pub fn with_capacity(&self, bytes: usize) -> Buffer {
        let bytes = match Self::CLASS_BYTES.iter().position(|size| bytes <= *size) {
            Some(class) => {
                let spare = self.0.borrow_mut().take(class);
                spare.unwrap_or_else(|| Vec::with_capacity(Self::CLASS_BYTES[class]))
            }
            None => Vec::with_capacity(bytes),
        };
        Buffer { bytes, pool: self.clone() }
    }

    /// A buffer with these bytes in it.
    pub fn copy_from(&self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.with_capacity(bytes.len());
        buffer.extend_from_slice(bytes);
        buffer
    }

    fn return_buffer(&self, mut bytes: Vec<u8>) {
        let capacity = bytes.capacity();
        let Some(class) = Self::CLASS_BYTES.iter().rposition(|size| *size <= capacity) else { return };
        let spares = &mut *self.0.borrow_mut();
        // One that has grown much beyond its class would waste memory.
        if spares.bytes + capacity <= Self::MAX_SPARE_BYTES && capacity < 2 * Self::CLASS_BYTES[class] {
            bytes.clear();
            spares.bytes += capacity;
            spares.by_class[class].push(bytes);
        }
    }
}

impl SpareBuffers {
    fn take(&mut self, class: usize) -> Option<Vec<u8>> {
        let buffer = self.by_class[class].pop()?;
        self.bytes -= buffer.capacity();
        Some(buffer)
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        self.pool.copy_from(&self.bytes)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.return_buffer(mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let pool = BufferPool::default();
        for (bytes, capacity) in
            [(64, 192), (192, 192), (193, 1600), (1500, 1600), (9000, 9216), (12_000, 18_432), (65_100, 65_536)]
        {
            let mut buffer = pool.with_capacity(bytes);
            buffer.resize(bytes, 7);
            let place = buffer.as_ptr();
            drop(buffer);
            let again = pool.with_capacity(bytes);
            assert_eq!((again.as_ptr(), again.len(), again.capacity()), (place, 0, capacity));
        }
        // One that is longer than what a host sends at once goes back to the system.
        drop(pool.with_capacity(140_000));
        assert_eq!(pool.0.borrow().by_class.each_ref().map(Vec::len), [1, 1, 0, 1, 1, 0, 1]);
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_may_whatever_their_lengths() {
        let pool = BufferPool::default();
        for bytes in [64, 1500, 9000, 65_000, 300] {
            let used: Vec<_> = (0..(20 << 20) / bytes).map(|_| pool.with_capacity(bytes)).collect();
            drop(used);
            let spares = pool.0.borrow();
            let held: usize = spares.by_class.iter().flatten().map(Vec::capacity).sum();
            assert_eq!(held, spares.bytes);
            assert!(held <= BufferPool::MAX_SPARE_BYTES, "{held}");
        }
    }

    #[test]
    fn a_copy_is_a_buffer_of_its_own() {
        let pool = BufferPool::default();
        let first = pool.copy_from(b"packet");
        let mut second = first.clone();
        second[0] = b'P';
        assert_eq!((&first[..], &second[..]), (&b"packet"[..], &b"Packet"[..]));
    }
}
