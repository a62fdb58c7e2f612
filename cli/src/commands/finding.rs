//! `--finding N`: the blocks of a finding of a report.

use super::input::is_stdin;
use super::needs::Needs;
use crate::error::CliError;
use crate::symbols::{SymbolArgs, WithProgress};
use memledger_analysis::{Position, Query, Rule, SetPosition};
use memledger_export::text;
use std::path::Path;

/// The query for the blocks of finding `number` of a trace, which is read for that.
pub fn query_of(trace: &Path, number: u32, symbols: &SymbolArgs) -> Result<Query, CliError> {
    if is_stdin(trace) {
        return Err(CliError::Usage(
            "--finding needs to read the trace twice, which standard input does not allow"
                .to_owned(),
        ));
    }
    let needs = Needs {
        formats: &[],
        options: &text::Options::default(),
        until: Position::End,
        scope: None,
        largest_live: 0,
        functions: true,
        findings: true,
    };
    let mut symbols = WithProgress::new(symbols);
    let (report, ..) = needs.read(trace, |report| report.symbolize(&mut symbols))?;
    let findings = report.findings.unwrap_or_default();
    let count = findings.len();
    let Some(finding) = findings.into_iter().nth(number as usize - 1) else {
        return Err(CliError::Failed(format!(
            "there is no finding {number}: the trace has {count} (memledger report --findings)"
        )));
    };
    let Some(set) = finding.set else {
        return Err(CliError::Failed(format!(
            "finding {number} is about free memory between the blocks of no place in particular"
        )));
    };
    let rule = Rule::by_name(set.rule).expect("a set has the name of a rule");
    let position = |position: &SetPosition| match *position {
        SetPosition::Event(event) => Position::Event(event),
        SetPosition::Time(at_ns) => Position::Time(at_ns),
    };
    let positions = set.positions.iter().map(position).collect();
    Ok(Query::new(rule, positions).in_buckets(&set.buckets))
}
