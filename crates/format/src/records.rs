//! Type records, as far as a writer needs them. [`encode::append_record`](super::encode::append_record) draws
//! their bytes.

/// The type records in the pieces of their stream.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The beginning of a record that continues in the next piece.
    partial: Vec<u8>,
}

impl Records {
    /// Visits the records that end in this piece, each without its first four bytes.
    pub(crate) fn visit(&mut self, piece: &[u8], mut visit: impl FnMut(&[u8])) {
        self.partial.extend_from_slice(piece);
        let mut rest = &self.partial[..];
        while let Some((&[u0, u1, s0, s1], body)) = rest.split_first_chunk()
            && let Some((record, after)) =
                body.split_at_checked(u16::from_le_bytes([s0, s1]).into())
        {
            if [u0, u1] == [0, 0] {
                visit(record);
            }
            rest = after;
        }
        let left = rest.len();
        self.partial.drain(..self.partial.len() - left);
    }
}

/// The parts of a record.
// Only the compact coding needs all of them.
#[allow(dead_code)]
pub(crate) struct Record<'a> {
    pub(crate) uid: u16,
    pub(crate) flags: u8,
    /// Each [`field_size`] bytes.
    pub(crate) fields: &'a [u8],
    pub(crate) logger: &'a [u8],
    pub(crate) event: &'a [u8],
    /// The names of the fields, one after the other.
    pub(crate) names: &'a [u8],
}

/// Bytes of a field in a record. Since protocol 6, it begins with its family and an unused byte.
pub(crate) fn field_size(protocol: u8) -> usize {
    if protocol >= 6 { 8 } else { 6 }
}

impl<'a> Record<'a> {
    /// The parts of a record; `None` if it is too short for them.
    pub(crate) fn split(record: &'a [u8], protocol: u8) -> Option<Self> {
        let (&[u0, u1, count, flags, logger, event], rest) = record.split_first_chunk()?;
        let (fields, rest) = rest.split_at_checked(usize::from(count) * field_size(protocol))?;
        let (logger, rest) = rest.split_at_checked(logger.into())?;
        let (event, names) = rest.split_at_checked(event.into())?;
        Some(Self { uid: u16::from_le_bytes([u0, u1]), flags, fields, logger, event, names })
    }
}
