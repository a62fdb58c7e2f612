//! The frames of a `Memory.CallstackSpec`, in each of the forms that Unreal's writers have had.

use memledger_format::protobuf::{take_varint, unzigzag};

/// How the frames of a spec are written. In the compressed forms each frame depends on the one
/// before it; the first on 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpecForm {
    /// 8 bytes a frame.
    Plain,
    /// A byte with the number of leading zeros of `frame XOR previous`, then its other bytes, the
    /// lowest first.
    XorAndRle,
    /// The zigzag difference, 7 bits a byte, the lowest first; bit 7 says that more follow.
    Delta7bit,
    /// The zigzag difference, the highest byte first; the number of leading ones of the first byte
    /// is the number of further bytes.
    DeltaVarInt,
}

/// The maximum number of frames that are kept. Unreal's writers have at most 255, ours has less.
const MAX_FRAMES: usize = 4096;

/// Puts the frames in `bytes` into `frames`, innermost first; returns whether all of `bytes` could be
/// read.
pub(super) fn read_frames(form: SpecForm, mut bytes: &[u8], frames: &mut Vec<u64>) -> bool {
    frames.clear();
    let mut last = 0;
    while !bytes.is_empty() {
        let next = match form {
            SpecForm::Plain => plain(&mut bytes),
            SpecForm::XorAndRle => xor(&mut bytes).map(|other| last ^ other),
            SpecForm::Delta7bit => take_varint(&mut bytes).map(|delta| undo(last, delta)),
            SpecForm::DeltaVarInt => prefixed(&mut bytes).map(|delta| undo(last, delta)),
        };
        let Some(frame) = next.filter(|_| frames.len() < MAX_FRAMES) else { return false };
        frames.push(frame);
        last = frame;
    }
    true
}

/// The frame that differs from `last` by this zigzag difference.
fn undo(last: u64, zigzag: u64) -> u64 {
    last.wrapping_add(unzigzag(zigzag))
}

fn plain(bytes: &mut &[u8]) -> Option<u64> {
    let (frame, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*frame))
}

fn xor(bytes: &mut &[u8]) -> Option<u64> {
    let (&zeros, rest) = bytes.split_first()?;
    let len = 64_usize.checked_sub(zeros.into())?.div_ceil(8);
    let (low, rest) = rest.split_at_checked(len)?;
    let mut value = [0; 8];
    value[..len].copy_from_slice(low);
    *bytes = rest;
    Some(u64::from_le_bytes(value))
}

fn prefixed(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let further = first.leading_ones() as usize;
    let (further, rest) = rest.split_at_checked(further)?;
    // The bits below the ones and the zero after them; none of a byte of 7 or 8 ones.
    let high = 0x7f_u8.checked_shr(further.len() as u32).unwrap_or(0) & first;
    *bytes = rest;
    Some(further.iter().fold(u64::from(high), |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zigzag(from: u64, to: u64) -> u64 {
        let delta = to.wrapping_sub(from) as i64;
        ((delta << 1) ^ (delta >> 63)) as u64
    }

    /// The frames as Unreal's writers write them.
    fn written(form: SpecForm, frames: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut last = 0;
        for &frame in frames {
            match form {
                SpecForm::Plain => bytes.extend_from_slice(&frame.to_le_bytes()),
                SpecForm::XorAndRle => {
                    let other = frame ^ last;
                    let zeros = other.leading_zeros() as usize;
                    bytes.push(zeros as u8);
                    bytes.extend_from_slice(&other.to_le_bytes()[..(64 - zeros).div_ceil(8)]);
                }
                SpecForm::Delta7bit => {
                    let mut delta = zigzag(last, frame);
                    while delta > 0x7f {
                        bytes.push(delta as u8 | 0x80);
                        delta >>= 7;
                    }
                    bytes.push(delta as u8);
                }
                SpecForm::DeltaVarInt => {
                    let delta = zigzag(last, frame);
                    let bits = 64 - (delta | 1).leading_zeros();
                    let further = ((bits - 1) / 7).min(8);
                    let all = delta.to_be_bytes();
                    let ones = !(0xff_u8.checked_shr(further).unwrap_or(0));
                    if further < 8 {
                        bytes.push(ones | all[7 - further as usize]);
                    } else {
                        bytes.push(ones);
                    }
                    bytes.extend_from_slice(&all[8 - further as usize..]);
                }
            }
            last = frame;
        }
        bytes
    }

    const FORMS: [SpecForm; 4] =
        [SpecForm::Plain, SpecForm::XorAndRle, SpecForm::Delta7bit, SpecForm::DeltaVarInt];

    #[test]
    fn known_bytes_give_known_frames() {
        let cases: [(SpecForm, &[u8], &[u64]); 5] = [
            (SpecForm::XorAndRle, &[51, 0x34, 0x12, 64, 56, 0x30], &[0x1234, 0x1234, 0x1204]),
            (SpecForm::Delta7bit, &[0x90, 0x01, 0x01, 0x00], &[72, 71, 71]),
            (SpecForm::DeltaVarInt, &[0x80, 0x90, 0x01, 0x00], &[72, 71, 71]),
            (SpecForm::DeltaVarInt, &[0xff, 0, 0, 0, 0, 0, 0, 0, 4], &[2]),
            (SpecForm::Plain, &[1, 0, 0, 0, 0, 0, 0, 0x80], &[1 << 63 | 1]),
        ];
        for (form, bytes, expected) in cases {
            let mut frames = vec![9];
            assert!(read_frames(form, bytes, &mut frames), "{form:?}");
            assert_eq!(frames, expected, "{form:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_ends_the_frames() {
        let cases: [(SpecForm, &[u8]); 6] = [
            (SpecForm::Plain, &[1, 0, 0, 0, 0, 0, 0]),
            (SpecForm::XorAndRle, &[65]),
            (SpecForm::XorAndRle, &[0, 1, 2, 3, 4, 5, 6, 7]),
            (SpecForm::Delta7bit, &[0x80; 10]),
            (SpecForm::DeltaVarInt, &[0xff, 0, 0, 0, 0, 0, 0, 0]),
            (SpecForm::DeltaVarInt, &[0x80]),
        ];
        for (form, bytes) in cases {
            let mut frames = Vec::new();
            assert!(!read_frames(form, bytes, &mut frames), "{form:?} {bytes:x?}");
            assert!(frames.is_empty(), "{form:?}");
        }
        let mut frames = Vec::new();
        assert!(!read_frames(SpecForm::XorAndRle, &[64; MAX_FRAMES + 1], &mut frames));
        assert_eq!(frames.len(), MAX_FRAMES);
    }

    proptest! {
        #[test]
        fn each_form_gives_back_what_was_written(
            frames in prop::collection::vec(
                prop_oneof![any::<u64>(), 0x5500_0000_0000_u64..0x5500_0100_0000, 0_u64..300],
                0..40,
            ),
        ) {
            for form in FORMS {
                let mut read = Vec::new();
                prop_assert!(read_frames(form, &written(form, &frames), &mut read));
                prop_assert_eq!(&read, &frames, "{:?}", form);
            }
        }

        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for form in FORMS {
                let mut frames = Vec::new();
                read_frames(form, &bytes, &mut frames);
                prop_assert!(frames.len() <= bytes.len());
            }
        }
    }
}
