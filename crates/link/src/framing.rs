use kumade_units::ConfigError;

/// What a packet takes on the line besides its own bytes, as `tc` counts it (tc-stab(8), tc-cake(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Framing {
    /// Bytes added to each IP packet: headers, trailer, perhaps a preamble. Negative where the line carries less than IP.
    pub overhead_bytes: i32,
    /// No frame is shorter (`mpu`), before it is cut into cells.
    pub min_frame_bytes: u32,
    /// How the line carries frames.
    pub cells: Cells,
}

/// How a line carries frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cells {
    /// As they are.
    #[default]
    None,
    /// In cells, the last of which is filled up. Those of ATM have 48 bytes and a header of 5 ([`Cells::ATM`]).
    Fixed {
        /// Bytes of frames in a cell.
        payload_bytes: u32,
        /// Its header.
        header_bytes: u32,
    },
    /// In the 64/65-byte encapsulation of VDSL2 (IEEE 802.3, 61.3): one byte more for each 64 or part of them.
    Ptm,
}

impl Cells {
    /// Those of ATM (AAL5).
    pub const ATM: Cells = Cells::Fixed { payload_bytes: 48, header_bytes: 5 };
}

/// What CAKE takes: from all that is below IP counted twice, to more than any stack of headers.
const OVERHEAD_RANGE_BYTES: std::ops::RangeInclusive<i32> = -64..=256;
/// Longer than any packet.
const MAX_FRAME_BYTES: u32 = 65_535;
/// PTM: for each so many bytes one more is sent.
const PTM_BLOCK_BYTES: u32 = 64;

impl Framing {
    /// Bytes that a packet of `size` IP bytes takes on the line; at least one.
    #[inline]
    pub fn line_bytes(&self, size: u32) -> u32 {
        let frame = size.saturating_add_signed(self.overhead_bytes).max(self.min_frame_bytes).max(1);
        match self.cells {
            Cells::None => frame,
            Cells::Fixed { payload_bytes, header_bytes } => {
                frame.div_ceil(payload_bytes).saturating_mul(payload_bytes.saturating_add(header_bytes))
            }
            Cells::Ptm => frame.saturating_add(frame.div_ceil(PTM_BLOCK_BYTES)),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("framing");
        if !OVERHEAD_RANGE_BYTES.contains(&self.overhead_bytes) {
            let value = format!("{} bytes", self.overhead_bytes);
            return Err(error("overhead", value, "out of range", "give -64 to 256 bytes a packet"));
        }
        if self.min_frame_bytes > MAX_FRAME_BYTES {
            let value = format!("{} bytes", self.min_frame_bytes);
            return Err(error("minimum of a frame", value, "more than a packet has", "give at most 65535 bytes"));
        }
        let Cells::Fixed { payload_bytes, header_bytes } = self.cells else { return Ok(()) };
        if payload_bytes == 0 || payload_bytes > MAX_FRAME_BYTES || header_bytes > MAX_FRAME_BYTES {
            let value = format!("{payload_bytes}+{header_bytes} bytes");
            return Err(error("cell", value, "which carries nothing, or too much", "give 48+5 for ATM"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cells_are_counted_exactly() {
        // PPPoE over ATM, LLC: 32 bytes (tc-cake(8), `pppoe-llcsnap` is 40 with the Ethernet header).
        let adsl = Framing { overhead_bytes: 32, cells: Cells::ATM, ..Framing::default() };
        let bytes = |size| adsl.line_bytes(size);
        // 16 + 32 = 48 fill one cell; one byte more takes another.
        assert_eq!([bytes(1), bytes(16), bytes(17), bytes(64), bytes(65)], [53, 53, 106, 106, 159]);
        assert_eq!(bytes(1500), 32 * 53);
        let vdsl = Framing { overhead_bytes: 30, cells: Cells::Ptm, ..Framing::default() };
        assert_eq!([vdsl.line_bytes(34), vdsl.line_bytes(35), vdsl.line_bytes(1500)], [65, 67, 1530 + 24]);
        let ethernet = Framing { overhead_bytes: 38, min_frame_bytes: 84, cells: Cells::None };
        assert_eq!([ethernet.line_bytes(40), ethernet.line_bytes(46), ethernet.line_bytes(1500)], [84, 84, 1538]);
        assert_eq!(Framing::default().line_bytes(1500), 1500);
        assert_eq!(Framing { overhead_bytes: -64, ..Framing::default() }.line_bytes(40), 1);
    }

    proptest! {
        #[test]
        fn a_line_carries_whole_cells_and_as_few_as_can_be(
            size in 1u32..70_000, overhead_bytes in -64i32..=256, min_frame_bytes in 0u32..100,
            payload_bytes in 1u32..2000, header_bytes in 0u32..100
        ) {
            let plain = Framing { overhead_bytes, min_frame_bytes, cells: Cells::None };
            let framing = Framing { cells: Cells::Fixed { payload_bytes, header_bytes }, ..plain };
            prop_assert!(framing.check().is_ok());
            let (frame, line) = (u64::from(plain.line_bytes(size)), u64::from(framing.line_bytes(size)));
            let cell = u64::from(payload_bytes + header_bytes);
            prop_assert_eq!(line % cell, 0);
            let room = line / cell * u64::from(payload_bytes);
            prop_assert!(room >= frame && room - frame < u64::from(payload_bytes), "{} {}", room, frame);
        }
    }

    #[test]
    fn what_no_line_has_is_refused() {
        let fixed = |payload_bytes, header_bytes| Cells::Fixed { payload_bytes, header_bytes };
        for (framing, part) in [
            (Framing { overhead_bytes: 300, ..Framing::default() }, "overhead is 300 bytes"),
            (Framing { min_frame_bytes: 70_000, ..Framing::default() }, "minimum of a frame is 70000"),
            (Framing { cells: fixed(0, 5), ..Framing::default() }, "give 48+5 for ATM"),
        ] {
            let error = framing.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
