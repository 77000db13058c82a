/// Takes fields of a fixed size from the front of a message.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

/// The message ends within a field.
pub(crate) struct UnexpectedEnd;

impl<'a> Reader<'a> {
    pub(crate) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], UnexpectedEnd> {
        let (field, rest) = self.0.split_first_chunk().ok_or(UnexpectedEnd)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(crate) fn slice(&mut self, length: usize) -> Result<&'a [u8], UnexpectedEnd> {
        let (field, rest) = self.0.split_at_checked(length).ok_or(UnexpectedEnd)?;
        self.0 = rest;
        Ok(field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, UnexpectedEnd> {
        self.bytes().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, UnexpectedEnd> {
        self.bytes().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, UnexpectedEnd> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, UnexpectedEnd> {
        self.bytes().map(u64::from_be_bytes)
    }
}
