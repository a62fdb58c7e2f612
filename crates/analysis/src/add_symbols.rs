//! Adds symbols to a trace.

use crate::convert::copy;
use crate::read::Summary;
use crate::symbols::{AT_RUN_TIME, SYMBOL, SYMBOL_FUNCTION, SYMBOL_MODULE, StoredSymbols};
use crate::{Analyzer, Report};
use memledger_document::{SourceFrame, Symbolizer};
use memledger_format::Error;
use memledger_format::encode::{Declaration, Value};
use memledger_format::packet::{PSEUDO_IMPORTANTS, TYPES};
use memledger_format::schema::{FIRST_UID, LAST_UID};
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};

/// A packet has events of about this number of bytes.
const PACKET: usize = 32 << 10;

/// What [`add_symbols`] has done.
#[derive(Debug)]
#[non_exhaustive]
pub struct Symbolized {
    /// What was read.
    pub summary: Summary,
    /// Different addresses in the call stacks of the trace that are in a module, or in code made at run time
    /// that has names.
    pub addresses: u64,
    /// Those with symbols in the output: the input's own, and those that were added.
    pub with_symbols: u64,
}

/// Copies a trace and adds the functions, files and lines of the addresses in its call stacks, so
/// that they can be read on a machine without the program's files. Costs a pass of the [`Analyzer`],
/// and what the symbolizer costs.
///
/// `symbolize` gets the report and fills in the functions of its frames, usually by
/// [`Report::symbolize`]. Symbols that the trace has already are in the report, and are not added again.
/// All packets are copied as [`convert`](crate::convert::convert) copies them; the new events
/// follow at the end, on a stream that belongs to no thread.
///
/// # Errors
/// As `convert`.
pub fn add_symbols(
    source: impl Read,
    out: impl Write,
    symbolize: impl FnOnce(&mut Report),
) -> Result<Symbolized, Error> {
    let mut analyzer = Analyzer::new().largest_live(0);
    let (mut addresses, mut with_symbols) = (0, 0);
    let summary = copy(source, out, None, &mut analyzer, |analyzer, summary| {
        let mut report = analyzer.report();
        symbolize(&mut report);
        let named = report.frames.iter().filter(|frame| !frame.functions.is_empty());
        with_symbols = named.count() as u64;
        let nameless = report.frames.iter().filter(|frame| frame.functions.is_empty());
        addresses = with_symbols + nameless.filter(|frame| frame.module.is_some()).count() as u64;
        packets(&report, analyzer.symbols(), summary)
    })?;
    Ok(Symbolized { summary, addresses, with_symbols })
}

/// The packets of all symbols of the report that are not stored yet: stream and payload.
fn packets(report: &Report, mut stored: &StoredSymbols, summary: &Summary) -> Vec<(u16, Vec<u8>)> {
    let Some((types, records)) = declare(summary) else { return Vec::new() };
    let mut writer = EventWriter { packets: Vec::new(), payload: Vec::new() };
    let (mut module_id, mut function_id) = stored.last_ids();
    let mut modules = HashMap::new();
    let mut functions = HashMap::new();
    for frame in report.frames.iter().filter(|frame| !frame.functions.is_empty()) {
        let module = frame.module.and_then(|module| report.modules.get(module));
        let known = match (frame.module, module) {
            (None, _) => stored.made_at_run_time(0, frame.offset),
            (Some(_), None) => continue,
            (_, Some(module)) => stored.frames(module, frame.offset),
        };
        if !known.is_empty() {
            continue;
        }
        let (path, build_id) =
            module.map_or(AT_RUN_TIME, |module| (&*module.path, &*module.build_id));
        let id = *modules.entry((path, build_id)).or_insert_with(|| {
            module_id += 1;
            let id = Value::Elements(build_id, 1);
            writer.event(&types.module, &[module_id.into(), path.into(), id]);
            module_id
        });
        let (mut ids, mut lines) = (Vec::new(), Vec::new());
        for SourceFrame { function, file, line, .. } in &frame.functions {
            let file = file.as_deref().unwrap_or("");
            let id = *functions.entry((&**function, file)).or_insert_with(|| {
                function_id += 1;
                let values = [function_id.into(), (&**function).into(), file.into()];
                writer.event(&types.function, &values);
                function_id
            });
            ids.extend(id.to_le_bytes());
            lines.extend(line.unwrap_or(0).to_le_bytes());
        }
        let values =
            [id.into(), frame.offset.into(), Value::Elements(&ids, 4), Value::Elements(&lines, 4)];
        writer.event(&types.symbol, &values);
    }
    writer.end_packet();
    if !writer.packets.is_empty() {
        writer.packets.insert(0, (TYPES, records));
    }
    writer.packets
}

/// The types of the events, with uids that the trace does not use.
struct Types {
    module: Declaration,
    function: Declaration,
    symbol: Declaration,
}

/// Gives the types uids, and returns their records. `None` if no uid is left.
fn declare(summary: &Summary) -> Option<(Types, Vec<u8>)> {
    let used: HashSet<_> = summary.types.iter().map(|count| count.event_type.uid).collect();
    let mut free = (FIRST_UID..=LAST_UID).rev().filter(|uid| !used.contains(uid));
    let types = Types {
        module: Declaration { uid: free.next()?, ..SYMBOL_MODULE },
        function: Declaration { uid: free.next()?, ..SYMBOL_FUNCTION },
        symbol: Declaration { uid: free.next()?, ..SYMBOL },
    };
    let mut records = Vec::new();
    for declaration in [&types.module, &types.function, &types.symbol] {
        declaration.append_record(&mut records);
    }
    Some((types, records))
}

struct EventWriter {
    packets: Vec<(u16, Vec<u8>)>,
    payload: Vec<u8>,
}

impl EventWriter {
    fn event(&mut self, declaration: &Declaration, values: &[Value<'_>]) {
        declaration.append(values, &mut self.payload);
        if self.payload.len() >= PACKET {
            self.end_packet();
        }
    }

    fn end_packet(&mut self) {
        if !self.payload.is_empty() {
            self.packets.push((PSEUDO_IMPORTANTS, std::mem::take(&mut self.payload)));
        }
    }
}
