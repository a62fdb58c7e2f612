//! What a trace has of stacks.

use memledger_analysis::read::{self, Event, Value, Visitor};
use stack_sampler::PROBE;
use std::collections::HashMap;
use std::fs::File;

pub(crate) struct Stack {
    /// Without those that are a guess.
    pub(crate) frames: Vec<u64>,
    /// Why it is not whole: 1 frame limit, 2 no unwind information, 3 unreadable memory; 0 if it is.
    pub(crate) end: u64,
    /// Whether there are further frames, which are a guess.
    is_guess: bool,
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) specs: HashMap<u64, Stack>,
    /// By the number of a sample.
    pub(crate) stack_of: HashMap<u64, u64>,
    /// Base, size, name.
    modules: Vec<(u64, u64, String)>,
}

impl Seen {
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
        let mut seen = Self::default();
        let summary = read::read(file, &mut seen).map_err(|error| format!("{path}: {error}"))?;
        match summary.is_complete() {
            true => Ok(seen),
            false => Err(format!("{path} is not complete")),
        }
    }

    /// Module and offset of an address.
    pub(crate) fn name(&self, address: u64) -> String {
        let module =
            self.modules.iter().find(|(base, size, _)| address.wrapping_sub(*base) < *size);
        match module {
            Some((base, _, name)) => {
                let name = name.rsplit('/').next().unwrap_or(name);
                format!("{name}+{:#x}", address - base)
            }
            None => format!("{address:#x}"),
        }
    }
}

impl Visitor for Seen {
    fn event(&mut self, event: &Event<'_>) {
        let number = |index| match event.value(index) {
            Some(Value::Unsigned(number)) => number,
            other => panic!("{}: {other:?}", event.event_type.name()),
        };
        match &*event.event_type.name() {
            "Diagnostics.ModuleLoad" => {
                self.modules.push((number(1), number(2), event.text(0).into_owned()));
            }
            "Memory.CallstackSpec" => {
                let bytes = event.bytes(1);
                let frames = bytes.chunks_exact(8);
                let frames = frames.map(|frame| u64::from_le_bytes(frame.try_into().unwrap()));
                self.specs
                    .insert(number(0), Stack { frames: frames.collect(), end: 0, is_guess: false });
            }
            // Before a guess, a stack is one that ends in code without unwind information.
            "Memledger.CallstackGuess" => {
                if let Some(stack) = self.specs.get_mut(&number(0)) {
                    stack.frames.truncate(number(1) as usize);
                    (stack.end, stack.is_guess) = (2, true);
                }
            }
            "Memledger.CallstackEnd" => {
                if let Some(stack) = self.specs.get_mut(&number(0)).filter(|stack| !stack.is_guess)
                {
                    stack.end = number(1);
                }
            }
            "Memory.AllocSystem" | "Memory.ReallocAllocSystem" => {
                let size = number(2) << 3 | number(3) & 7;
                if let Some(sample) = size.checked_sub(PROBE as u64) {
                    self.stack_of.insert(sample, number(1));
                }
            }
            _ => {}
        }
    }
}
