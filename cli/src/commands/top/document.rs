//! The rows that a program sends (`memledger.report/1`), as a report.

use memledger_analysis::{
    Figures, Frame, GroupRow, HeapRow, Module, NameRow, Report, ScopeRow, StackEnd, StackKind,
    StackRow, ThreadRow,
};
use serde_json::Value;

const SCHEMA: &str = "memledger.report/1";

/// Reads a document; the error is what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Report, String> {
    let document: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    let schema = document["schema"].as_str().unwrap_or_default();
    if schema != SCHEMA {
        return Err(format!("its schema is {schema:?}, not {SCHEMA}"));
    }
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
        scope.figures = figures(row);
        scope.inclusive = figures(&row["inclusive"]);
        scope
    });
    report.by_group = all(&document["by_group"], |row| {
        let mut group = GroupRow::default();
        group.group = names(&row["group"]);
        group.figures = figures(row);
        group.inclusive = figures(&row["inclusive"]);
        group
    });
    report.by_name = all(&document["by_name"], |row| {
        let mut name = NameRow::default();
        name.group = names(&row["group"]);
        name.name = text(&row["name"]);
        name.figures = figures(row);
        name
    });
    report.by_thread = all(&document["by_thread"], |row| {
        let mut thread = ThreadRow::default();
        thread.id = small(&row["id"]).unwrap_or(0);
        thread.name = text(&row["name"]);
        thread.system_id = small(&row["system_id"]);
        thread.figures = figures(row);
        thread
    });
    report.by_heap = all(&document["by_heap"], |row| {
        let mut heap = HeapRow::default();
        heap.id = small(&row["id"]).unwrap_or(0);
        heap.name = text(&row["name"]);
        heap.figures = figures(row);
        heap
    });
    stacks(&document, &mut report);
    Ok(report)
}

fn stacks(document: &Value, report: &mut Report) {
    let hex =
        |value: &Value| u64::from_str_radix(value.as_str()?.trim_start_matches("0x"), 16).ok();
    report.stack_sampling_bytes = document["stack_sampling_bytes"].as_u64();
    report.modules = all(&document["modules"], |module| {
        let id = text(&module["build_id"]);
        let byte = |at: usize| u8::from_str_radix(id.get(at..at + 2)?, 16).ok();
        let build_id = (0..id.len()).step_by(2).filter_map(byte).collect();
        let base = hex(&module["base"]).unwrap_or(0);
        Module::new(text(&module["path"]), base, number(&module["size"]), build_id)
    });
    report.frames = all(&document["frames"], |row| {
        let mut frame = Frame::default();
        let module = row["module"].as_u64().and_then(|module| usize::try_from(module).ok());
        frame.module = module.filter(|&module| module < report.modules.len());
        frame.offset = hex(&row["offset"]).unwrap_or(0);
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
        stack.figures = figures(row);
        stack
    });
    report.by_stack = stacks.into_iter().collect();
}

/// The figures that are shown; of a stack whose blocks are a sample, the estimates.
fn figures(row: &Value) -> Figures {
    let of = |key: &str| number(row["estimates"][key].get("value").unwrap_or(&row[key]));
    let mut figures = Figures::default();
    figures.live_bytes = of("live_bytes");
    figures.live_blocks = of("live_blocks");
    figures.peak_bytes = of("peak_bytes");
    figures.allocated_bytes = of("allocated_bytes");
    figures.allocations = of("allocations");
    figures
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

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_analysis::Analyzer;
    use memledger_analysis::read::read;
    use memledger_export::json;
    use std::fs::File;

    fn shown(of: &Figures) -> [u64; 5] {
        [of.live_bytes, of.live_blocks, of.peak_bytes, of.allocated_bytes, of.allocations]
    }

    #[test]
    fn what_is_sent_is_what_is_read() {
        let sample = "../tests/samples/memledger-small.utrace";
        let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(sample);
        let mut analyzer = Analyzer::new();
        read(File::open(sample).unwrap(), &mut analyzer).unwrap();
        let mut sent = analyzer.report();
        sent.modules = vec![Module::new("/bin/program".into(), 0x4000, 0x1000, vec![0xab, 1])];
        let mut frame = Frame::default();
        (frame.module, frame.offset) = (Some(0), 0x123);
        sent.frames = vec![frame];
        let mut stack = StackRow::default();
        (stack.kind, stack.end) = (StackKind::Known, StackEnd::FrameLimit);
        (stack.frames, stack.figures) = (vec![0], sent.by_scope[0].inclusive);
        sent.by_stack = [stack].into_iter().collect();
        let mut document = Vec::new();
        json::write_rows(&sent, &mut document).unwrap();
        let read = parse(&document).unwrap();
        assert_eq!(read.totals.peak_bytes, sent.totals.peak_bytes);
        assert_eq!(read.trace.program, sent.trace.program);
        let of = |report: &Report| {
            let scopes = report.by_scope.iter();
            let scopes = scopes.flat_map(|row| [shown(&row.figures), shown(&row.inclusive)]);
            let groups = report.by_group.iter().map(|row| shown(&row.inclusive));
            let names = report.by_name.iter().map(|row| shown(&row.figures));
            let threads = report.by_thread.iter().map(|row| shown(&row.figures));
            let heaps = report.by_heap.iter().map(|row| shown(&row.figures));
            let stacks = report.by_stack.iter().map(|row| shown(&row.figures));
            let rows = scopes.chain(groups).chain(names).chain(threads).chain(heaps).chain(stacks);
            rows.collect::<Vec<_>>()
        };
        assert_eq!(of(&read), of(&sent));
        let keys = |report: &Report| {
            let stacks = report.by_stack.iter().map(|row| (row.kind, row.end, row.frames.to_vec()));
            let scopes = report.by_scope.iter().map(|row| row.path.clone());
            let frames = report.frames.iter().map(|frame| (frame.module, frame.offset));
            let heaps = report.by_heap.iter().map(|row| (row.id, row.name.clone()));
            (
                stacks.collect::<Vec<_>>(),
                scopes.collect::<Vec<_>>(),
                frames.collect::<Vec<_>>(),
                heaps.collect::<Vec<_>>(),
            )
        };
        assert_eq!(keys(&read), keys(&sent));
        assert_eq!(read.modules, sent.modules);
    }

    #[test]
    fn of_a_stack_that_is_sampled_the_estimates_are_read() {
        let row = serde_json::json!({
            "live_bytes": 3, "allocations": 1,
            "estimates": { "live_bytes": { "value": 500, "low": 0, "high": 900 } },
        });
        assert_eq!(shown(&figures(&row)), [500, 0, 0, 0, 1]);
    }
}
