//! Maps and programs of the kernel's BPF machine, by bpf(2) alone.
//!
//! To make maps and to load programs takes CAP_BPF and CAP_PERFMON in the initial user namespace. Who has them may go on using them without.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands of linux/bpf.h.
const MAP_CREATE: libc::c_long = 0;
pub(crate) const MAP_LOOKUP: libc::c_long = 1;
pub(crate) const MAP_UPDATE: libc::c_long = 2;
pub(crate) const MAP_DELETE: libc::c_long = 3;
const PROGRAM_LOAD: libc::c_long = 5;
pub(crate) const MAP_LOOKUP_BATCH: libc::c_long = 24;
pub(crate) const GET_INFORMATION: libc::c_long = 15;
pub(crate) const LINK_CREATE: libc::c_long = 28;
pub(crate) const LINK_DETACH: libc::c_long = 34;

/// BPF_MAP_TYPE_HASH, …_ARRAY, …_LRU_HASH, …_LPM_TRIE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    /// Where there is no more room, what was used long ago makes some.
    LruHash = 9,
    /// The key begins with its length in bits (u32).
    LpmTrie = 11,
}

/// What memory an entry takes is taken once it is there: BPF_F_NO_PREALLOC. (Tries know nothing else.)
const NO_PREALLOCATION: u32 = 1;
/// An entry that is there is refused: BPF_NOEXIST.
const NO_REPLACEMENT: u64 = 1;
/// How many entries are read at once.
const BATCH_ENTRIES: usize = 4096;
/// BPF_PROG_TYPE_SCHED_CLS.
const TRAFFIC_CLASSIFIER: u32 = 3;
/// BPF_TCX_INGRESS.
const TCX_INGRESS: u32 = 46;
/// Some of its functions are for programs under the GPL alone.
const LICENSE: &[u8] = b"Dual MIT/GPL\0";

/// A table that programs in the kernel and this process share.
#[derive(Debug)]
pub(crate) struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// An empty one, for so many entries at most; an array has them all, of zeros.
    pub(crate) fn create(kind: MapKind, key_bytes: usize, value_bytes: usize, max_entries: u32) -> io::Result<Self> {
        let flags = if matches!(kind, MapKind::Hash | MapKind::LpmTrie) { NO_PREALLOCATION } else { 0 };
        let attributes = words([kind as u32, key_bytes as u32, value_bytes as u32, max_entries, flags]);
        let descriptor = open_by_call(MAP_CREATE, &attributes)?;
        Ok(Map { descriptor, key_bytes, value_bytes })
    }

    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.value_bytes];
        self.call(MAP_LOOKUP, key, Some(&mut value), 0)?;
        Ok(value)
    }

    /// An entry that is there is replaced.
    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.call(MAP_UPDATE, key, Some(&mut value.to_vec()), 0)
    }

    /// An entry that is there is refused.
    pub(crate) fn add(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.call(MAP_UPDATE, key, Some(&mut value.to_vec()), NO_REPLACEMENT)
    }

    pub(crate) fn remove(&self, key: &[u8]) -> io::Result<()> {
        self.call(MAP_DELETE, key, None, 0)
    }

    fn call(&self, command: libc::c_long, key: &[u8], value: Option<&mut Vec<u8>>, flags: u64) -> io::Result<()> {
        let has_lengths =
            key.len() == self.key_bytes && value.as_ref().is_none_or(|value| value.len() == self.value_bytes);
        if !has_lengths {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let value = value.map_or(0, |value| value.as_mut_ptr() as u64);
        let mut attributes = long_words([self.descriptor.as_raw_fd() as u64, key.as_ptr() as u64, value, flags]);
        // SAFETY: the kernel reads the key, and reads or writes the value, of the lengths that the map was made with, checked above.
        unsafe { call_kernel(command, &mut attributes) }.map(drop)
    }

    /// All entries of a hash map. What changes meanwhile may be there or not, or twice.
    pub(crate) fn read_all(&self, mut read: impl FnMut(&[u8], &[u8])) -> io::Result<()> {
        let mut keys = vec![0_u8; self.key_bytes * BATCH_ENTRIES];
        let mut values = vec![0_u8; self.value_bytes * BATCH_ENTRIES];
        // The kernel's own, a number of four octets.
        let (mut place, mut has_begun) = ([0_u8; 8], false);
        loop {
            let from = if has_begun { place.as_ptr() as u64 } else { 0 };
            let mut attributes =
                long_words([from, place.as_mut_ptr() as u64, keys.as_mut_ptr() as u64, values.as_mut_ptr() as u64]);
            attributes.extend(words([BATCH_ENTRIES as u32, self.descriptor.as_raw_fd() as u32]));
            attributes.extend([0; 16]);
            // SAFETY: the kernel writes as many keys and values of the map's lengths as it is told, for which there is room, and
            // how many these are into the attributes.
            let outcome = unsafe { call_kernel(MAP_LOOKUP_BATCH, &mut attributes) };
            let is_end = matches!(&outcome, Err(error) if error.raw_os_error() == Some(libc::ENOENT));
            if !is_end {
                outcome?;
            }
            let count =
                attributes.get(32..).and_then(|rest| rest.first_chunk()).map_or(0, |count| u32::from_ne_bytes(*count));
            let entries = keys.chunks_exact(self.key_bytes).zip(values.chunks_exact(self.value_bytes));
            entries.take(count as usize).for_each(|(key, value)| read(key, value));
            if is_end {
                return Ok(());
            }
            has_begun = true;
        }
    }
}

/// A program that decides on packets as they arrive at interfaces.
#[derive(Debug)]
pub(crate) struct PacketProgram {
    descriptor: OwnedFd,
}

/// As linux/bpf.h has instructions: operation, registers, offset, immediate value.
pub(crate) const INSTRUCTION_BYTES: usize = 8;
/// A value of 64 bits takes two instructions: BPF_LD | BPF_IMM | BPF_DW.
const LOAD_LONG: u8 = 0x18;
/// The value is the descriptor of a map: BPF_PSEUDO_MAP_FD, in the upper half of the octet of registers.
const IS_MAP: u8 = 1 << 4;

/// In the place of a constant of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Replacement<'a> {
    Map(&'a Map),
    Number(u32),
}

impl PacketProgram {
    /// Loads these instructions, in which constants of 64 bits stand for others: `first_constant` for the first of `replacements`, the
    /// number behind it for the next.
    pub(crate) fn load(instructions: &[u8], first_constant: u64, replacements: &[Replacement<'_>]) -> io::Result<Self> {
        let mut instructions = instructions.to_vec();
        replace_constants(&mut instructions, first_constant, replacements);
        let mut attributes = words([TRAFFIC_CLASSIFIER, (instructions.len() / INSTRUCTION_BYTES) as u32]);
        attributes.extend(long_words([instructions.as_ptr() as u64, LICENSE.as_ptr() as u64]));
        let descriptor = open_by_call(PROGRAM_LOAD, &attributes)?;
        Ok(PacketProgram { descriptor })
    }

    /// Runs it for packets that arrive at an interface of the calling thread's namespace, before packet rules, until what is returned
    /// is dropped or its process ends (tcx, Linux 6.6).
    pub(crate) fn attach(&self, interface: u32) -> io::Result<ProgramLink> {
        let program = self.descriptor.as_raw_fd() as u32;
        let mut attributes = words([program, interface, TCX_INGRESS, 0]);
        // Behind the programs of others, whatever their revision.
        attributes.extend(long_words([0, 0]));
        let descriptor = open_by_call(LINK_CREATE, &attributes)?;
        Ok(ProgramLink { descriptor })
    }
}

/// A program that runs at an interface, until this is dropped, the interface is gone, or somebody detaches it.
#[derive(Debug)]
pub(crate) struct ProgramLink {
    descriptor: OwnedFd,
}

impl ProgramLink {
    /// The number of the interface where it runs; none where it runs no more.
    pub(crate) fn interface(&self) -> io::Result<Option<u32>> {
        // struct bpf_link_info: type, number, program and padding, then of tcx the interface and where it runs there.
        let mut information = [0_u8; 24];
        let mut attributes = words([self.descriptor.as_raw_fd() as u32, information.len() as u32]);
        attributes.extend(long_words([information.as_mut_ptr() as u64]));
        // SAFETY: the kernel writes no more than it is told that there is room for.
        unsafe { call_kernel(GET_INFORMATION, &mut attributes) }?;
        let [.., a, b, c, d, _, _, _, _] = information;
        Ok(Some(u32::from_ne_bytes([a, b, c, d])).filter(|interface| *interface != 0))
    }

    #[cfg(test)]
    pub(crate) fn duplicate(&self) -> OwnedFd {
        self.descriptor.try_clone().unwrap()
    }
}

impl Drop for ProgramLink {
    /// Closing it would do, were there no child process that is being started and has it open for a moment: meanwhile, the same program
    /// can't be attached once more.
    fn drop(&mut self) {
        let mut attributes = words([self.descriptor.as_raw_fd() as u32]);
        // SAFETY: the attributes of this command point to nothing.
        let _ = unsafe { call_kernel(LINK_DETACH, &mut attributes) };
    }
}

#[cfg(test)]
impl PacketProgram {
    /// What it says of a frame that arrives at the loopback interface, and the frame then.
    pub(crate) fn run(&self, frame: &[u8]) -> io::Result<(i32, Vec<u8>)> {
        const PROGRAM_TEST_RUN: libc::c_long = 10;
        let mut after = vec![0; frame.len()];
        let length = frame.len() as u32;
        let mut attributes = words([self.descriptor.as_raw_fd() as u32, 0, length, length]);
        attributes.extend(long_words([frame.as_ptr() as u64, after.as_mut_ptr() as u64]));
        attributes.extend([0; 48]);
        // SAFETY: the kernel reads the frame, and writes as many octets.
        unsafe { call_kernel(PROGRAM_TEST_RUN, &mut attributes) }?;
        let word = |place: usize| {
            attributes.get(place..).and_then(|rest| rest.first_chunk()).map_or(0, |word| i32::from_ne_bytes(*word))
        };
        after.truncate(word(12) as usize);
        Ok((word(4), after))
    }
}

fn replace_constants(instructions: &mut [u8], first_constant: u64, replacements: &[Replacement<'_>]) {
    for pair in 0..(instructions.len() / INSTRUCTION_BYTES).saturating_sub(1) {
        let Some(pair) = instructions.get_mut(pair * INSTRUCTION_BYTES..(pair + 2) * INSTRUCTION_BYTES) else {
            continue;
        };
        let [operation, registers, _, _, a, b, c, d, _, _, _, _, e, f, g, h] = pair else { continue };
        let value = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        let number = value.checked_sub(first_constant).and_then(|number| usize::try_from(number).ok());
        let Some(replacement) = number.and_then(|number| replacements.get(number)) else { continue };
        if *operation != LOAD_LONG {
            continue;
        }
        let value = match replacement {
            Replacement::Map(map) => {
                *registers |= IS_MAP;
                map.descriptor.as_raw_fd() as u32
            }
            Replacement::Number(value) => *value,
        };
        ([*a, *b, *c, *d], [*e, *f, *g, *h]) = (value.to_le_bytes(), [0; 4]);
    }
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn long_words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A call that returns a new descriptor.
fn open_by_call(command: libc::c_long, attributes: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: what the attributes of these commands point to is read alone, and lives for the call.
    let descriptor = unsafe { call_kernel(command, &mut attributes.to_vec()) }?;
    // SAFETY: it is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// # Safety
/// What the attributes point to must be there, for as long as the command takes it to be.
unsafe fn call_kernel(command: libc::c_long, attributes: &mut Vec<u8>) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes no more of the attributes than it is told that there are.
    let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), attributes.len()) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as i32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_replaced_and_nothing_else() {
        let load = |value: u64| {
            let [low, high] = [value as u32, (value >> 32) as u32].map(u32::to_le_bytes);
            [[LOAD_LONG, 3, 0, 0], low, [0; 4], high].concat()
        };
        let first = 0x6b75_6d61_6465_0000;
        let before = [load(first), load(first + 2), load(first + 1), load(7), vec![0x95, 0, 0, 0, 0, 0, 0, 0]].concat();
        let mut after = before.clone();
        replace_constants(&mut after, first, &[Replacement::Number(5), Replacement::Number(u32::MAX)]);
        let expected = [load(5), load(first + 2), load(u32::MAX.into()), load(7), before[64..].to_vec()].concat();
        assert_eq!(after, expected);
    }
}
