//! Walks over any memory as a stack.

use arbitrary::{Arbitrary, Result, Unstructured};
use memledger::fuzzing::{Step, WORDS, Word, walks};

fn word(input: &mut Unstructured<'_>) -> Result<Word> {
    // NOTE: few values, because all stacks of the process share a table of 2 million frames.
    const VALUES: [u64; 8] = [0, 1, 8, 1 << 12, 1 << 47, u64::MAX, u64::MAX - 7, u64::MAX << 47];
    let [kind, value] = <[u8; 2]>::arbitrary(input)?;
    let value = usize::from(value);
    Ok(match kind {
        0..128 => Word::Stack(value, 0),
        128..144 => Word::Stack(value % 64, value / 64),
        144..240 => Word::Code(value),
        _ => Word::Value(VALUES[value % 8]),
    })
}

fn parse(data: &[u8]) -> Result<([Word; WORDS], bool, Vec<Step>)> {
    let mut input = Unstructured::new(data);
    let is_own = bool::arbitrary(&mut input)?;
    let mut steps = Vec::new();
    for _ in 0..input.int_in_range(1..=8)? {
        steps.push(Step {
            changed: (u8::arbitrary(&mut input)?.into(), word(&mut input)?),
            return_address: word(&mut input)?,
            sp: word(&mut input)?,
            fp: word(&mut input)?,
            limit: u8::arbitrary(&mut input)?,
        });
    }
    let mut words = [Word::Value(0); WORDS];
    for to in &mut words {
        *to = word(&mut input)?;
    }
    Ok((words, is_own, steps))
}

/// Walks, and compares each walk with one that has no help.
pub fn run(data: &[u8]) {
    let Ok((words, is_own, steps)) = parse(data) else { return };
    for (step, (helped, alone)) in walks(&words, is_own, &steps).iter().enumerate() {
        assert_eq!(helped, alone, "step {step} of {steps:x?} over {words:x?}, own: {is_own}");
    }
}

/// Stacks whose words are addresses of code and of the stack in turns.
pub fn seeds() -> Vec<Vec<u8>> {
    [0, 1].map(seed).into()
}

fn seed(is_own: u8) -> Vec<u8> {
    let mut bytes = vec![is_own, 4];
    for step in 0..8 {
        // One word is code; the return address, the stack pointer and `fp`; the limit.
        bytes.extend([9 * step, 150, 3 * step, 150, 7 + step / 3, 0, 2 * (step / 2), 0, 20, 255]);
    }
    for i in 0..WORDS as u8 {
        bytes.extend(if i % 3 == 0 { [0, i + 4] } else { [150, i.wrapping_mul(5)] });
    }
    bytes
}
