/// Takes fields of a fixed size from the front of a message.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

/// The message ends within a field.
pub(super) struct Ends;

impl<'a> Reader<'a> {
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Ends> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Ends)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(super) fn slice(&mut self, length: usize) -> Result<&'a [u8], Ends> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(Ends)?;
        self.0 = rest;
        Ok(field)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Ends> {
        self.bytes().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Ends> {
        self.bytes().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Ends> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Ends> {
        self.bytes().map(u64::from_be_bytes)
    }
}
