//! The symbols of a file: functions by address, without source lines.

use super::object_file::ObjectFile;
use addr2line::demangle_auto;
use object::{Object, ObjectSymbol, SymbolKind};

/// How many symbols before an address are looked at: a symbol can lie within another.
const NESTED: usize = 8;

struct Symbol {
    start: u64,
    /// 0 if it is unknown.
    size: u64,
    name: Box<str>,
}

/// Sorted by address, with one name for each.
#[derive(Default)]
pub struct SymbolTable(Vec<Symbol>);

impl SymbolTable {
    /// The symbols of the file, or, if it is stripped, those of its dynamic symbol table.
    pub fn read(file: &ObjectFile) -> Self {
        let symbols = file.with_parsed(|file| {
            let functions = Self::of(file.symbols());
            if functions.is_empty() { Self::of(file.dynamic_symbols()) } else { functions }
        });
        let mut symbols = symbols.unwrap_or_default();
        // Of several names of an address, the longest function that other files can see is used.
        symbols.sort_by(|(a, a_global), (b, b_global)| {
            (a.start, b.size, b_global, &a.name).cmp(&(b.start, a.size, a_global, &b.name))
        });
        symbols.dedup_by_key(|(symbol, _)| symbol.start);
        Self(symbols.into_iter().map(|(symbol, _)| symbol).collect())
    }

    fn of<'a>(symbols: impl Iterator<Item = impl ObjectSymbol<'a>>) -> Vec<(Symbol, bool)> {
        let code = |symbol: &_| {
            ObjectSymbol::kind(symbol) == SymbolKind::Text && ObjectSymbol::is_definition(symbol)
        };
        let symbols = symbols.filter(code).filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            let (start, size) = (symbol.address(), symbol.size());
            Some((Symbol { start, size, name: name.into() }, symbol.is_global()))
        });
        symbols.collect()
    }

    /// The demangled name of the function at this address. An address after the end of the symbol
    /// before it is in a function without a name, and marked.
    pub fn name(&self, address: u64) -> Option<String> {
        let after = self.0.partition_point(|symbol| symbol.start <= address);
        let before = self.0.get(..after)?;
        let holds = |symbol: &&Symbol| address - symbol.start < symbol.size;
        let nearest = before.last()?;
        let found = before.iter().rev().take(NESTED).find(holds);
        let found = found.or((nearest.size == 0).then_some(nearest));
        let name = |symbol: &Symbol| demangle_auto((&*symbol.name).into(), None).into_owned();
        Some(found.map_or_else(|| format!("(after {})", name(nearest)), name))
    }
}
