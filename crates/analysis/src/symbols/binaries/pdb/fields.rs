//! Numbers and texts of a record, read one after another. What is not there is `None`.

use memledger_format::words::text_of;

#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.bytes(count).map(drop)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(*self.bytes(2)?.as_array()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.bytes(4)?.as_array()?))
    }

    /// The next bytes, as many as the next number says.
    pub(super) fn counted(&mut self) -> Option<Fields<'a>> {
        let count = self.u32()?;
        self.bytes(count as usize).map(Fields)
    }

    /// The bytes before the next NUL.
    pub(super) fn terminated(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let bytes = self.bytes(length)?;
        self.skip(1)?;
        Some(bytes)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        self.terminated().map(|bytes| text_of(bytes).into_owned())
    }

    /// The next record, which begins with its length: its kind and its content.
    pub(super) fn record(&mut self) -> Option<(u16, Fields<'a>)> {
        let length = self.u16()?;
        let mut record = Fields(self.bytes(length.into())?);
        Some((record.u16()?, record))
    }

    /// Skips what fills the last of the words of 4 bytes. `start` is what the words begin with.
    pub(super) fn align(&mut self, start: &[u8]) {
        let used = start.len() - self.0.len();
        let _ = self.skip(used.next_multiple_of(4) - used);
    }
}
