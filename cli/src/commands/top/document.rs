//! The figures that a program sends (`memledger.figures/1`), as a report.

use memledger_analysis::{
    Figures, Frame, GroupRow, HeapRow, Module, NameRow, Report, ScopeRow, StackEnd, StackKind,
    StackRow, ThreadRow,
};
use serde_json::Value;

const SCHEMA: &str = "memledger.figures/1";

/// Reads a document; the error is what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Report, String> {
    let document: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    let schema = document["schema"].as_str().unwrap_or_default();
    if schema != SCHEMA {
        return Err(format!("its schema is {schema:?}, not {SCHEMA}"));
    }
    let columns = Columns::of(&document["columns"])?;
    let mut report = Report::default();
    let (trace, totals) = (&document["trace"], &document["totals"]);
    report.trace.program = trace["program"].as_str().map(str::to_owned);
    report.trace.pid = small(&trace["pid"]);
    report.trace.duration_ns = number(&trace["duration_ns"]);
    report.totals.live_bytes = number(&totals["live_bytes"]);
    report.totals.live_blocks = number(&totals["live_blocks"]);
    report.totals.peak_bytes = number(&totals["peak_bytes"]);
    report.totals.allocated_bytes = number(&totals["allocated_bytes"]);
    report.totals.allocations = number(&totals["allocations"]);
    report.losses.lost_events = number(&document["losses"]["lost_events"]);
    report.losses.lost_unknown = document["losses"]["lost_events"].is_null();
    report.by_scope = all(&document["by_scope"], |row| {
        let mut scope = ScopeRow::default();
        scope.path = names(&row["path"]);
        scope.figures = columns.figures(&row["figures"]);
        scope.inclusive = columns.figures(&row["inclusive"]);
        scope
    });
    report.by_group = all(&document["by_group"], |row| {
        let mut group = GroupRow::default();
        group.group = names(&row["group"]);
        group.figures = columns.figures(&row["figures"]);
        group.inclusive = columns.figures(&row["inclusive"]);
        group
    });
    report.by_name = all(&document["by_name"], |row| {
        let mut name = NameRow::default();
        name.group = names(&row["group"]);
        name.name = text(&row["name"]);
        name.figures = columns.figures(&row["figures"]);
        name
    });
    report.by_thread = all(&document["by_thread"], |row| {
        let mut thread = ThreadRow::default();
        thread.id = small(&row["id"]).unwrap_or(0);
        thread.name = text(&row["name"]);
        thread.system_id = small(&row["system_id"]);
        thread.figures = columns.figures(&row["figures"]);
        thread
    });
    report.by_heap = all(&document["by_heap"], |row| {
        let mut heap = HeapRow::default();
        heap.id = small(&row["id"]).unwrap_or(0);
        heap.name = text(&row["name"]);
        heap.figures = columns.figures(&row["figures"]);
        heap
    });
    stacks(&document, &columns, &mut report);
    Ok(report)
}

fn stacks(document: &Value, columns: &Columns, report: &mut Report) {
    report.stack_sampling_bytes = document["stack_sampling_bytes"].as_u64();
    report.modules = all(&document["modules"], |module| {
        let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let id = text(&module["build_id"]);
        let byte = |at: usize| u8::from_str_radix(id.get(at..at + 2)?, 16).ok();
        let build_id = (0..id.len()).step_by(2).filter_map(byte).collect();
        let base = module["base"].as_str().and_then(hex).unwrap_or(0);
        Module::new(text(&module["path"]), base, number(&module["size"]), build_id)
    });
    report.frames = all(&document["frames"], |row| {
        let mut frame = Frame::default();
        let module = row["module"].as_u64().and_then(|module| usize::try_from(module).ok());
        frame.module = module.filter(|&module| module < report.modules.len());
        frame.offset = number(&row["offset"]);
        frame
    });
    let stacks = all(&document["by_stack"], |row| {
        let mut stack = StackRow::default();
        stack.kind = match row["kind"].as_str() {
            Some("known") => StackKind::Known,
            Some("not taken") => StackKind::NotTaken,
            Some("other") => StackKind::Other,
            _ => StackKind::Unknown,
        };
        stack.end = match row["end"].as_str() {
            Some("frame limit") => StackEnd::FrameLimit,
            Some("no unwind information") => StackEnd::NoUnwindInformation,
            Some("unreadable memory") => StackEnd::UnreadableMemory,
            Some("library changed") => StackEnd::LibraryChanged,
            Some("missing in the trace") => StackEnd::Lost,
            _ => StackEnd::Complete,
        };
        stack.frames = row["frames"].as_array().into_iter().flatten().filter_map(small).collect();
        stack.figures = columns.figures(&row["figures"]);
        stack
    });
    report.by_stack = stacks.into_iter().collect();
}

/// Where each figure is in a row.
struct Columns([Option<usize>; 5]);

impl Columns {
    fn of(columns: &Value) -> Result<Self, String> {
        let names = columns.as_array().ok_or("it has no columns")?;
        let place = |name: &str| names.iter().position(|column| column.as_str() == Some(name));
        Ok(Self(
            ["live_bytes", "live_blocks", "peak_bytes", "allocated_bytes", "allocations"]
                .map(place),
        ))
    }

    fn figures(&self, row: &Value) -> Figures {
        let [live, blocks, peak, allocated, count] =
            self.0.map(|place| place.map_or(0, |place| number(&row[place])));
        let mut figures = Figures::default();
        (figures.live_bytes, figures.live_blocks, figures.peak_bytes) = (live, blocks, peak);
        (figures.allocated_bytes, figures.allocations) = (allocated, count);
        figures
    }
}

fn all<T>(rows: &Value, row: impl FnMut(&Value) -> T) -> Vec<T> {
    rows.as_array().into_iter().flatten().map(row).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn small(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn names(value: &Value) -> Vec<String> {
    all(value, text)
}
