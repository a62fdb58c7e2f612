//! The names of functions that were inlined: records of the streams of types and of ids.

use super::fields::Fields;

/// The records of a stream. Each has a number, counted from the first.
pub(super) struct Records {
    bytes: Vec<u8>,
    first: u32,
    /// Where each record begins in `bytes`.
    starts: Vec<u32>,
}

impl Records {
    /// Takes the records of a stream up to the first that is damaged; none if the stream is empty.
    pub(super) fn read(bytes: Vec<u8>) -> Self {
        let (first, starts) = Self::starts(&bytes).unwrap_or_default();
        Self { bytes, first, starts }
    }

    fn starts(bytes: &[u8]) -> Option<(u32, Vec<u32>)> {
        let mut header = Fields(bytes);
        let [_, size, first, _, _] = [(); 5].map(|()| header.u32());
        let mut records = Fields(bytes);
        records.skip(size? as usize)?;
        let mut starts = Vec::new();
        loop {
            let start = bytes.len() - records.0.len();
            if records.record().is_none() {
                return Some((first?, starts));
            }
            starts.push(u32::try_from(start).ok()?);
        }
    }

    fn get(&self, number: u32) -> Option<(u16, Fields<'_>)> {
        let start = self.starts.get(number.checked_sub(self.first)? as usize)?;
        Fields(self.bytes.get(*start as usize..)?).record()
    }
}

/// The name of a function in the stream of ids, with the module or the type that it belongs to.
pub(super) fn function(number: u32, ids: &Records, types: &Records) -> Option<String> {
    const FUNCTION: u16 = 0x1601;
    const METHOD: u16 = 0x1602;
    const TEXT: u16 = 0x1605;
    let (kind, mut fields) = ids.get(number)?;
    let (within, _) = (fields.u32()?, fields.u32()?);
    let name = fields.text()?;
    let within = match kind {
        FUNCTION if within == 0 => return Some(name),
        FUNCTION => {
            let (kind, mut fields) = ids.get(within)?;
            fields.skip(4)?;
            fields.text().filter(|_| kind == TEXT)
        }
        METHOD => type_name(within, types),
        _ => return None,
    };
    Some(within.map_or_else(|| name.clone(), |within| format!("{within}::{name}")))
}

/// The name of a class, a structure, a union or an enumeration.
fn type_name(number: u32, types: &Records) -> Option<String> {
    const CLASS: u16 = 0x1504;
    const STRUCTURE: u16 = 0x1505;
    const UNION: u16 = 0x1506;
    const ENUMERATION: u16 = 0x1507;
    const INTERFACE: u16 = 0x1519;
    let (kind, mut fields) = types.get(number)?;
    match kind {
        CLASS | STRUCTURE | INTERFACE => {
            fields.skip(16)?;
            skip_number(&mut fields)?;
        }
        UNION => {
            fields.skip(8)?;
            skip_number(&mut fields)?;
        }
        ENUMERATION => fields.skip(12)?,
        _ => return None,
    }
    fields.text()
}

/// Skips a number: a small one is there itself, of a larger one its type comes first.
fn skip_number(fields: &mut Fields<'_>) -> Option<()> {
    let size = match fields.u16()? {
        ..0x8000 => 0,
        0x8000 => 1,
        0x8001 | 0x8002 => 2,
        0x8003 | 0x8004 => 4,
        0x8009 | 0x800a => 8,
        _ => return None,
    };
    fields.skip(size)
}
