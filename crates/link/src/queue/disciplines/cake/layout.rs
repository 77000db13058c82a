/// The tins, each with the part of the rate up to which it comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TinLayout {
    /// One for all.
    BestEffort,
    /// Bulk (1/16), best effort, and voice (1/4).
    Diffserv3,
    /// Bulk (1/16), best effort, video (1/2), and voice (1/4).
    Diffserv4,
}

/// The part of the rate up to which a tin comes first, in sixteenths.
#[derive(Debug, Clone, Copy)]
pub(super) struct TinShare {
    pub(super) numerator: u32,
}

/// As users name them, which is as `tc` does.
pub(super) const LAYOUTS: [(&str, TinLayout); 3] =
    [("besteffort", TinLayout::BestEffort), ("diffserv3", TinLayout::Diffserv3), ("diffserv4", TinLayout::Diffserv4)];
const BEST_EFFORT: TinShare = TinShare { numerator: 16 };
const BULK: TinShare = TinShare { numerator: 1 };
const VIDEO: TinShare = TinShare { numerator: 8 };
const VOICE: TinShare = TinShare { numerator: 4 };
/// By DSCP: 0 for best effort, 1 for bulk, 2 and 3 for what comes first (`diffserv4` of net/sched/sch_cake.c, in hexadecimal
/// digits from DSCP 0 on; RFC 4594 and 8622 name them).
const TIN_OF_DSCP_4: &[u8; 64] = b"0100200010000000202020202020202030202020300030303000000030000000";
const TIN_OF_DSCP_3: &[u8; 64] = b"0100200010000000000000000000000000000000000020202000000020000000";

impl TinLayout {
    /// The tins; of those that are within their shares the last comes first.
    pub(super) fn shares(self) -> &'static [TinShare] {
        match self {
            TinLayout::BestEffort => &[BEST_EFFORT],
            TinLayout::Diffserv3 => &[BEST_EFFORT, BULK, VOICE],
            TinLayout::Diffserv4 => &[BEST_EFFORT, BULK, VIDEO, VOICE],
        }
    }

    pub(super) fn tin(self, dscp: u8) -> usize {
        let table = match self {
            TinLayout::BestEffort => return 0,
            TinLayout::Diffserv3 => TIN_OF_DSCP_3,
            TinLayout::Diffserv4 => TIN_OF_DSCP_4,
        };
        usize::from(table[usize::from(dscp) % table.len()] - b'0')
    }
}
