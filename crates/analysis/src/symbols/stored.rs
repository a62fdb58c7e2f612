//! The symbols that a trace itself has.

use memledger_document::{Module, SourceFrame, Symbolizer};
use memledger_format::encode::Declaration;
use memledger_format::schema::{FieldType, NO_SYNC};
use std::collections::HashMap;

/// A file: what the symbols of its addresses refer to. `Id` is a number from 1.
pub(crate) const SYMBOL_MODULE: Declaration = Declaration {
    uid: 0,
    logger: "Memledger",
    event: "SymbolModule",
    flags: NO_SYNC,
    fields: &[
        ("Id", FieldType::U32),
        ("Name", FieldType::AnsiString),
        ("ImageId", FieldType::U8Array),
    ],
};

/// A function and its file, which many addresses share. `Id` is a number from 1.
pub(crate) const SYMBOL_FUNCTION: Declaration = Declaration {
    event: "SymbolFunction",
    fields: &[
        ("Id", FieldType::U32),
        ("Function", FieldType::AnsiString),
        ("File", FieldType::AnsiString),
    ],
    ..SYMBOL_MODULE
};

/// The functions at an address, innermost first, and a line in each; 0 if it is unknown.
pub(crate) const SYMBOL: Declaration = Declaration {
    event: "Symbol",
    fields: &[
        ("Module", FieldType::U32),
        ("Offset", FieldType::U64),
        ("Functions", FieldType::U32Array),
        ("Lines", FieldType::U32Array),
    ],
    ..SYMBOL_MODULE
};

/// The path and the build id of the file that code made at run time counts as; its offsets are addresses.
pub(crate) const AT_RUN_TIME: (&str, &[u8]) = ("", &[]);

/// Ids of functions, innermost first, and lines.
type Frames = Box<[(u32, u32)]>;

/// The symbols in a trace. Costs about 60 bytes for each function, and 32 bytes for each address
/// and 8 for each of its functions, beyond the texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredSymbols {
    /// By path and build id, the number of a file in `addresses`.
    files: HashMap<(String, Vec<u8>), u32>,
    /// The file of each `SymbolModule.Id`.
    modules: HashMap<u32, u32>,
    /// By `SymbolFunction.Id`: the function and its source file.
    functions: HashMap<u32, (String, String)>,
    /// By file and offset.
    addresses: HashMap<(u32, u64), Frames>,
}

impl StoredSymbols {
    pub(crate) fn add_module(&mut self, id: u32, path: String, build_id: Vec<u8>) {
        let next = self.files.len() as u32;
        let file = *self.files.entry((path, build_id)).or_insert(next);
        self.modules.insert(id, file);
    }

    pub(crate) fn add_function(&mut self, id: u32, function: String, file: String) {
        self.functions.insert(id, (function, file));
    }

    /// `functions` and `lines` are arrays of `u32`, as they are on the wire.
    pub(crate) fn add(&mut self, module: u32, offset: u64, functions: &[u8], lines: &[u8]) {
        let Some(&file) = self.modules.get(&module) else { return };
        let numbers = |bytes: &[u8]| {
            let words = bytes.as_chunks::<4>().0.iter();
            words.map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>()
        };
        let lines = numbers(lines).into_iter().chain(std::iter::repeat(0));
        let frames = numbers(functions).into_iter().zip(lines).collect();
        self.addresses.insert((file, offset), frames);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The highest ids in use: of modules and of functions.
    pub(crate) fn last_ids(&self) -> (u32, u32) {
        let last = |ids: Option<&u32>| ids.copied().unwrap_or(0);
        (last(self.modules.keys().max()), last(self.functions.keys().max()))
    }

    /// The functions at an offset in a file.
    fn frames_in(&self, path: &str, build_id: &[u8], offset: u64) -> Vec<SourceFrame> {
        let file = self.files.get(&(path.to_owned(), build_id.to_owned()));
        let frames = file.and_then(|file| self.addresses.get(&(*file, offset)));
        let frames = frames.map(|frames| &**frames).unwrap_or_default().iter();
        let frame = |(function, line): &(u32, u32)| {
            let (function, file) = self.functions.get(function)?;
            let file = (!file.is_empty()).then(|| file.clone());
            Some(SourceFrame::new(function.as_str(), file, (*line > 0).then_some(*line)))
        };
        frames.filter_map(frame).collect()
    }
}

impl Symbolizer for &StoredSymbols {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        self.frames_in(&module.path, &module.build_id, offset)
    }

    fn made_at_run_time(&mut self, _pid: u32, address: u64) -> Vec<SourceFrame> {
        let (path, build_id) = AT_RUN_TIME;
        self.frames_in(path, build_id, address)
    }
}
