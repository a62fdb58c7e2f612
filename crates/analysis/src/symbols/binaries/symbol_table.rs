//! The symbols of a file: functions by address, without source lines.

use super::demangled::demangled;
use super::headers::Kind;
use super::object_file::ObjectFile;
use memledger_format::words::text_of;
use object::{Object, ObjectSymbol, SymbolKind};
use std::ops::Range;

/// Where the code begins that each program has from its compiler. They have no size, and other functions
/// follow.
const BEFORE_OTHERS: [&str; 5] =
    ["_init", "_fini", "frame_dummy", "register_tm_clones", "deregister_tm_clones"];

/// Smaller variables are together in pages, so it is the page that is resident.
const MIN_VARIABLE: u64 = 4096;

/// How many symbols before an address are looked at: a symbol can lie within another.
const NESTED: usize = 8;

struct Symbol {
    start: u64,
    /// 0 if it is unknown.
    size: u64,
    name: Box<str>,
}

/// Sorted by address, with one name for each.
pub(super) struct SymbolTable {
    symbols: Vec<Symbol>,
    /// Not whole: of the functions that other files can call only.
    is_whole: bool,
}

impl SymbolTable {
    /// The symbols of the file, or, if it is stripped, those of its dynamic symbol table and of
    /// its MiniDebugInfo. What cannot be read goes to `notes`.
    pub(super) fn read(file: &ObjectFile, notes: &mut Vec<String>) -> Self {
        let mut symbols = file.with_parsed(|file| Self::of(file.symbols())).unwrap_or_default();
        if file.headers.kind == Kind::MachO {
            // Names of C begin with `_` there, and all others with one more.
            for (symbol, _) in &mut symbols {
                symbol.name = symbol.name.strip_prefix('_').unwrap_or(&symbol.name).into();
            }
        }
        let mut is_whole = !symbols.is_empty();
        if !is_whole {
            let exported = file.with_parsed(|file| Self::of(file.dynamic_symbols()));
            symbols = exported.unwrap_or_default();
            let mini = file.mini_debug_info().unwrap_or_else(|sentence| {
                notes.push(sentence);
                Vec::new()
            });
            if let Ok(mini) = object::File::parse(&*mini) {
                let others = Self::of(mini.symbols());
                is_whole = !others.is_empty();
                symbols.extend(others);
            }
        }
        Self { symbols: sorted(symbols), is_whole }
    }

    /// All functions of a file by their addresses, without sizes.
    pub(super) fn of_functions(functions: Vec<(u64, String)>) -> Self {
        let symbol =
            |(start, name): (u64, String)| (Symbol { start, size: 0, name: name.into() }, true);
        let symbols = sorted(functions.into_iter().map(symbol).collect());
        Self { is_whole: !symbols.is_empty(), symbols }
    }

    fn of<'a>(symbols: impl Iterator<Item = impl ObjectSymbol<'a>>) -> Vec<(Symbol, bool)> {
        let code = |symbol: &_| {
            ObjectSymbol::kind(symbol) == SymbolKind::Text && ObjectSymbol::is_definition(symbol)
        };
        let symbols = symbols.filter(code).filter_map(|symbol| {
            let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
            let (start, size) = (symbol.address(), symbol.size());
            Some((Symbol { start, size, name: text_of(name).into() }, symbol.is_global()))
        });
        symbols.collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Whether all functions of the file are in it.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The demangled name of the function at this address. An address after the end of the symbol
    /// before it is in a function without a name, and marked; in a file that was stripped, it can be in
    /// any function. A symbol without a size reaches to the next one.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        let before = self.symbols.get(..after)?;
        let holds = |symbol: &&Symbol| address - symbol.start < symbol.size;
        let nearest = before.last()?;
        let found = before.iter().rev().take(NESTED).find(holds);
        let is_followed = self.is_whole && !BEFORE_OTHERS.contains(&&*nearest.name);
        let found = found.or((nearest.size == 0 && is_followed).then_some(nearest));
        let name = |symbol: &Symbol| demangled(&symbol.name, None);
        let after = || is_followed.then(|| format!("(after {})", name(nearest)));
        found.map(name).or_else(after)
    }
}

/// Where variables of at least [`MIN_VARIABLE`] bytes are, from the base of the file, and their names. A file
/// that is stripped has those that other files can use.
pub(super) fn variables(file: &ObjectFile) -> Vec<(Range<u64>, String)> {
    let base = file.headers.linked_base;
    let found = file.with_parsed(|file| {
        let all = of_variables(base, file.symbols());
        if all.is_empty() { of_variables(base, file.dynamic_symbols()) } else { all }
    });
    found.unwrap_or_default()
}

fn of_variables<'a>(
    base: u64,
    symbols: impl Iterator<Item = impl ObjectSymbol<'a>>,
) -> Vec<(Range<u64>, String)> {
    let variable = |symbol: &_| {
        ObjectSymbol::kind(symbol) == SymbolKind::Data
            && ObjectSymbol::is_definition(symbol)
            && ObjectSymbol::size(symbol) >= MIN_VARIABLE
    };
    let symbols = symbols.filter(variable).filter_map(|symbol| {
        let start = symbol.address().checked_sub(base)?;
        let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
        Some((start..start.checked_add(symbol.size())?, demangled(&text_of(name), None)))
    });
    symbols.collect()
}

/// Of several names of an address, the longest function that other files can see is used.
fn sorted(mut symbols: Vec<(Symbol, bool)>) -> Vec<Symbol> {
    symbols.sort_by(|(a, a_global), (b, b_global)| {
        (a.start, b.size, b_global, &a.name).cmp(&(b.start, a.size, a_global, &b.name))
    });
    symbols.dedup_by_key(|(symbol, _)| symbol.start);
    symbols.into_iter().map(|(symbol, _)| symbol).collect()
}
