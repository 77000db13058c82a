//! The largest UDP packet that passes a path whole, searched with few packets, as RFC 8899 searches it.
//!
//! Where the largest that both hosts can send does not pass, one train has a packet of each usual size, and another one two sizes between the
//! largest of these that passed and the smallest that did not. So the search takes three round trips in the first direction, and one in the second.

use kumade_probe_train::{Segment, Train, TrainRecord};
use kumade_units::{Direction, Span};

/// The MTUs of Ethernet without jumbo frames, of PPPoE on it (RFC 2516), of 6in4, DS-Lite and WireGuard, of other tunnels, and the least of IPv6
/// (RFC 8200, 5): where not even this passes, nothing else is tried.
const USUAL_PACKET_BYTES: [u32; 7] = [Train::MAX_ETHERNET_PACKET_BYTES, 1492, 1480, 1460, 1420, 1400, 1280];
/// Packets of the first size, which passes on most paths, and may be lost by chance.
const FIRST_PACKETS: u32 = 2;
/// From one packet to the next.
const INTERVAL: Span = Span::from_millis(1);
/// Sizes are told apart no closer.
const RESOLUTION_BYTES: u32 = 12;

/// The search, one direction after the other. All sizes are bytes of IP packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PacketSizeSearch {
    /// Those in which something is open, the current one first.
    directions: Vec<Direction>,
    stage: Stage,
    /// What both hosts can send, and what passed the directions before.
    upper: u32,
    /// What both hosts can send, for each direction by itself; none to try no larger ones than passed the directions before.
    upper_of_each: Option<u32>,
    /// The largest that has passed in this direction, and the smallest that has not.
    passed: Option<u32>,
    lost: Option<u32>,
    /// What was found in each direction: the largest that passed, and the smallest that did not.
    found: [Option<(u32, Option<u32>)>; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Upper,
    UsualSizes,
    Between,
}

/// What is known of the packet size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketSize {
    /// Another train is needed.
    Open,
    /// The largest that passed, and the smallest that did not, if any.
    Largest(u32, Option<u32>),
    /// No usual size passes.
    SmallOnly,
}

impl PacketSizeSearch {
    /// Up to what both hosts can send. With `is_each`, each direction is searched by itself; otherwise, larger packets than passed the first are
    /// not tried in the second, which saves two round trips where few pass.
    pub(crate) fn new(upper: u32, directions: Vec<Direction>, is_each: bool) -> Self {
        PacketSizeSearch {
            directions,
            stage: Stage::Upper,
            upper,
            upper_of_each: is_each.then_some(upper),
            passed: None,
            lost: None,
            found: [None; 2],
        }
    }

    /// The next train, and its direction; none where nothing is open.
    pub(crate) fn next_train(&self) -> Option<(Direction, Train)> {
        let count = if self.stage == Stage::Upper { FIRST_PACKETS } else { 1 };
        let segment = |first_size| Segment { count, interval: INTERVAL, first_size, size_step: 0 };
        let segments = self.next_sizes().into_iter().map(segment).collect();
        self.directions.first().map(|direction| (*direction, Train { segments }))
    }

    /// The largest that passed in each direction, up first, and the smallest that did not; none of a direction that was not looked at.
    pub(crate) fn found(&self) -> [Option<(u32, Option<u32>)>; 2] {
        self.found
    }

    fn next_sizes(&self) -> Vec<u32> {
        match self.stage {
            Stage::Upper => vec![self.upper],
            // Once more with that which was lost, unless it is a jumbo frame.
            Stage::UsualSizes => USUAL_PACKET_BYTES.into_iter().filter(|size| *size <= self.upper).collect(),
            Stage::Between => {
                let (passed, lost) = (self.passed.unwrap_or(0), self.lost.unwrap_or(self.upper));
                [2, 1].map(|third| passed + (lost - passed) * third / 3).to_vec()
            }
        }
    }

    /// Takes in which packets of the train arrived.
    pub(crate) fn record_train(&mut self, record: &TrainRecord) -> PacketSize {
        let sent = || record.packets.iter().map(|packet| packet.size);
        let arrived = record.packets.iter().filter(|packet| packet.received.is_some()).map(|packet| packet.size);
        self.passed = arrived.max().max(self.passed);
        let passed = self.passed.unwrap_or(0);
        self.lost = sent().chain(self.lost).filter(|size| *size > passed).min();
        self.stage = match (self.stage, self.lost) {
            (Stage::Upper, Some(_)) if self.passed.is_none() => Stage::UsualSizes,
            (Stage::UsualSizes, _) if self.passed.is_none() => return PacketSize::SmallOnly,
            // Jumbo frames of other sizes are rare: no round trip is spent on them.
            (Stage::UsualSizes, Some(lost))
                if lost - passed > RESOLUTION_BYTES && passed < Train::MAX_ETHERNET_PACKET_BYTES =>
            {
                Stage::Between
            }
            _ => {
                let direction = self.directions.remove(0);
                self.found[direction as usize] = Some((passed, self.lost));
                (self.upper, self.passed, self.lost) = (self.upper_of_each.unwrap_or(passed), None, None);
                Stage::Upper
            }
        };
        if self.directions.is_empty() { self.result() } else { PacketSize::Open }
    }

    /// Of all directions.
    fn result(&self) -> PacketSize {
        let found = || self.found.iter().flatten();
        let passed = found().map(|(passed, _)| *passed).min().unwrap_or(0);
        PacketSize::Largest(passed, found().filter_map(|(_, lost)| *lost).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_probe_train::PacketRecord;
    use kumade_units::Time;

    /// What is found where so many bytes pass in each direction, with trains and bytes sent.
    fn search(upper: u32, mtu: [u32; 2], loses: impl Fn(u64) -> bool) -> (PacketSize, u32, u64) {
        run(&mut PacketSizeSearch::new(upper, Direction::BOTH.to_vec(), false), mtu, loses)
    }

    fn run(search: &mut PacketSizeSearch, mtu: [u32; 2], loses: impl Fn(u64) -> bool) -> (PacketSize, u32, u64) {
        let (mut trains, mut bytes, mut number) = (0, 0, 0);
        loop {
            let (direction, train) = search.next_train().unwrap();
            let mtu = mtu[usize::from(direction == Direction::Down)];
            trains += 1;
            let packets = train.packets().map(|packet| {
                (bytes, number) = (bytes + u64::from(packet.size), number + 1);
                let received = Some(Time::ZERO).filter(|_| packet.size <= mtu && !loses(number));
                PacketRecord { size: packet.size, sent: Some(Time::ZERO), submitted: None, received }
            });
            match search.record_train(&TrainRecord { packets: packets.collect() }) {
                PacketSize::Open => assert!(trains < 10),
                found => return (found, trains, bytes),
            }
        }
    }

    #[test]
    fn a_path_that_passes_all_takes_a_train_each_way() {
        assert_eq!(search(1500, [1500; 2], |_| false), (PacketSize::Largest(1500, None), 2, 6_000));
        assert_eq!(search(9000, [9000; 2], |_| false).0, PacketSize::Largest(9000, None));
    }

    /// "UDP packets larger than 1400 bytes do not pass" was said of PPPoE.
    #[test]
    fn usual_sizes_are_found_at_once() {
        for mtu in [1492, 1480, 1280] {
            let (found, trains, bytes) = search(1500, [mtu; 2], |_| false);
            let PacketSize::Largest(largest, Some(lost)) = found else { panic!("{found:?}") };
            assert!(largest <= mtu && mtu < lost && mtu - largest < 41, "{mtu}: {found:?}");
            assert!(mtu == 1280 || largest == mtu, "{mtu}: {found:?}");
            assert!(trains <= 4 && bytes <= 20_000, "{mtu}: {trains} trains, {bytes} bytes");
        }
        assert_eq!(search(9000, [1500, 9000], |_| false).0, PacketSize::Largest(1500, Some(9000)));
        assert_eq!(search(1500, [1500, 1492], |_| false).0, PacketSize::Largest(1492, Some(1500)));
    }

    #[test]
    fn between_usual_sizes_the_largest_is_known_nearly() {
        for mtu in 1281..1500 {
            for mtu in [[mtu; 2], [mtu, 1500], [1500, mtu]] {
                let (found, trains, bytes) = search(1500, mtu, |_| false);
                let PacketSize::Largest(largest, Some(lost)) = found else { panic!("{mtu:?}: {found:?}") };
                let passes = *mtu.iter().min().unwrap();
                assert!((largest..lost).contains(&passes), "{mtu:?}: {found:?}");
                assert!(passes <= 1400 || passes - largest <= 14, "{mtu:?}: {found:?}");
                assert!(trains <= 4 && bytes <= 20_000, "{mtu:?}: {trains} trains, {bytes} bytes");
            }
        }
        assert_eq!(search(1500, [600; 2], |_| false).0, PacketSize::SmallOnly);
    }

    #[test]
    fn each_direction_is_searched_by_itself_on_request() {
        for mtu in [[1400, 1500], [1500, 1400], [1492, 1280], [1500, 1500]] {
            let mut search = PacketSizeSearch::new(1500, Direction::BOTH.to_vec(), true);
            let (result, trains, bytes) = run(&mut search, mtu, |_| false);
            let smallest = mtu[0].min(mtu[1]);
            let PacketSize::Largest(largest, lost) = result else { panic!("{mtu:?}: {result:?}") };
            assert!(largest == smallest && lost.is_none_or(|lost| lost > smallest), "{mtu:?}: {result:?}");
            let passed = search.found().map(|found| found.unwrap());
            assert_eq!(passed.map(|(passed, _)| passed), mtu, "{passed:?}");
            assert!(passed.iter().all(|(passed, lost)| lost.is_none() == (*passed == 1500)), "{passed:?}");
            assert!(trains <= 6 && bytes <= 35_000, "{mtu:?}: {trains} trains, {bytes} bytes");
        }
    }

    #[test]
    fn both_first_packets_may_be_lost_by_chance() {
        assert_eq!(search(1500, [1500; 2], |number| number <= 2).0, PacketSize::Largest(1500, None));
    }
}
