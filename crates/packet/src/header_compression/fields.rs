/// Octets of compressed headers at most: three, a checksum, distances and values.
pub const MAX_COMPRESSED_BYTES: usize = 3 + 2 + 20 + 52;

/// The octets that say which fields there are: before these, where they are not 0.
const LEADING_OCTETS: usize = 3;

/// Fields that are put one behind the other.
#[derive(Debug, Clone)]
pub(super) struct FieldWriter {
    bytes: [u8; MAX_COMPRESSED_BYTES],
    start: usize,
    end: usize,
}

/// An eighth of what so many octets count: distances back from what was expected.
fn bias(octets: usize) -> u32 {
    if octets == 0 { 0 } else { 1 << (8 * octets - 3) }
}

/// Which of these lengths is the shortest that suffices: the last one, if none before.
fn place_of_size(distance: u32, sizes: &[usize]) -> usize {
    // As most are.
    if distance == 0 {
        return 0;
    }
    let fits = |octets: &usize| u64::from(distance.wrapping_add(bias(*octets))) < 1 << (8 * octets);
    sizes.iter().position(fits).unwrap_or(sizes.len() - 1)
}

impl FieldWriter {
    pub(super) fn new() -> Self {
        FieldWriter { bytes: [0; MAX_COMPRESSED_BYTES], start: LEADING_OCTETS, end: LEADING_OCTETS }
    }

    pub(super) fn push(&mut self, field: &[u8]) {
        self.bytes[self.end..self.end + field.len()].copy_from_slice(field);
        self.end += field.len();
    }

    /// Puts the first of these before the fields, and those of the others that are not 0.
    pub(super) fn put_before(&mut self, [first, others @ ..]: [u8; LEADING_OCTETS]) {
        for octet in others.into_iter().rev().filter(|octet| *octet != 0).chain([first]) {
            self.start -= 1;
            self.bytes[self.start] = octet;
        }
    }

    /// Takes the shortest of these lengths that suffices and has no fewer octets than `min_octets`, or the last one, which has to suffice for
    /// all distances. Returns its place, and how many octets would have sufficed.
    pub(super) fn push_distance(&mut self, distance: u32, sizes: &[usize], min_octets: usize) -> (u8, usize) {
        let needed = place_of_size(distance, sizes);
        let min_place = if min_octets == 0 {
            0
        } else {
            sizes.iter().position(|octets| *octets >= min_octets).unwrap_or(sizes.len() - 1)
        };
        let place = needed.max(min_place);
        let octets = sizes[place];
        self.push(&distance.wrapping_add(bias(octets)).to_be_bytes()[4 - octets..]);
        (place as u8, sizes[needed])
    }

    /// The same of a number of 16 bits.
    pub(super) fn push_short_distance(&mut self, distance: u16, sizes: &[usize], min_octets: usize) -> (u8, usize) {
        let is_back = distance > u16::MAX - bias(2) as u16;
        let distance = if is_back { u32::from(distance) | 0xffff_0000 } else { distance.into() };
        self.push_distance(distance, sizes, min_octets)
    }
}

impl AsRef<[u8]> for FieldWriter {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

/// What is still to be read.
#[derive(Debug)]
pub(super) struct FieldReader<'a>(pub(super) &'a [u8]);

impl<'a> FieldReader<'a> {
    pub(super) fn take_slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take_slice(N)?.try_into().ok()
    }

    pub(super) fn take_octet(&mut self) -> Option<u8> {
        self.take().map(|[octet]| octet)
    }

    /// What [`FieldWriter::push_distance`] has written; the lowest two bits of `place` say how.
    pub(super) fn take_distance(&mut self, sizes: &[usize], place: u8) -> Option<u32> {
        let octets = *sizes.get(usize::from(place & 3))?;
        let field = self.take_slice(octets)?;
        let biased = field.iter().fold(0, |value: u32, octet| value << 8 | u32::from(*octet));
        Some(biased.wrapping_sub(bias(octets)))
    }
}
