//! The answers of the analyzer, as JSON.

use super::lives::{Entry, Lives};
use super::lives_file::LivesFile;
use super::passes::{self, Cancel};
use super::picture::Picture;
use crate::commands::query::ParsedQuery;
use crate::error::CliError;
use memledger_analysis::{
    Answer, Found, Indexed, IndexedPosition, Position, Query, Rule, SingleBlock, Unanswered,
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The parameters of a request.
pub type Parameters = HashMap<String, String>;

/// At most this many single blocks are listed.
const MAX_BLOCKS: usize = 10_000;
const BLOCKS: usize = 100;

/// The parameters of a query.
const OF_QUERY: [&str; 5] = ["rule", "a", "b", "c", "d"];

/// What is asked.
pub struct TraceView {
    pub trace: PathBuf,
    pub picture: Arc<Picture>,
    /// Its blocks, if they are kept.
    pub lives: Option<Arc<LivesFile>>,
}

impl TraceView {
    /// What knows single blocks without a pass.
    fn lives<'a>(&'a self, cancel: &'a Cancel) -> Option<Lives<'a>> {
        Lives::new(self.lives.as_deref()?, &self.picture.index, cancel)
    }
}

/// A query that was asked of a picture.
struct Question {
    asked: ParsedQuery,
    positions: Vec<Position>,
    /// Whether positions are not moved, which can take a pass.
    is_exact: bool,
}

impl Question {
    fn new(picture: &Picture, parameters: &Parameters) -> Result<Self, CliError> {
        let given = OF_QUERY.iter().filter_map(|name| Some((*name, parameters.get(*name)?)));
        let given: Vec<_> = given.map(|(name, value)| (name, value.as_str())).collect();
        let asked = ParsedQuery::parse(&given)?;
        let positions = asked.positions(picture.peak_event, picture.duration_ns);
        let is_exact = parameters.get("exact").is_some_and(|value| value != "0");
        Ok(Self { asked, positions, is_exact })
    }

    /// Why there is no answer, which is the fault of the question.
    fn unanswered(&self, why: Unanswered) -> CliError {
        CliError::Usage(self.asked.unanswered(why).to_string())
    }

    fn rule(&self) -> Rule {
        self.asked.rule
    }

    /// The positions as times and events, the end included: as many as the rule has, or one more.
    fn plain(&self, picture: &Picture) -> Vec<Position> {
        let bookmarks = &picture.index.bookmarks;
        let end = Position::Event(picture.end());
        let plain = |position: &Position| match position {
            Position::Bookmark(name) => {
                let set = bookmarks.iter().find(|(set, _)| set == name);
                Position::Event(set.map_or(0, |&(_, event)| event))
            }
            Position::End => end.clone(),
            position => position.clone(),
        };
        let mut positions: Vec<_> = self.positions.iter().map(plain).collect();
        positions.resize(self.rule().times(), end.clone());
        if self.rule() == Rule::AllocatedAfter {
            positions.push(end);
        }
        positions
    }

    /// What a pass finds in some buckets, at positions that are times and events.
    fn pass(
        &self,
        trace: &Path,
        positions: Vec<Position>,
        (buckets, blocks): (&[u32], usize),
        cancel: &Cancel,
    ) -> Result<Answer, CliError> {
        let rule = match self.rule() {
            // The trace may have grown since: this has an end.
            Rule::AllocatedAfter => Rule::AllocatedBetween,
            rule => rule,
        };
        let query = Query::new(rule, positions).in_buckets(buckets).blocks(blocks);
        passes::answer(trace, query, cancel)
    }

    /// What the index says; of a pass, if it is not exact and should be.
    fn find(&self, picture: &Picture, trace: &Path, cancel: &Cancel) -> Result<Indexed, CliError> {
        let unanswered = |why| self.unanswered(why);
        let mut found = picture.index.find(self.rule(), &self.positions).map_err(unanswered)?;
        let is_moved = found.positions.iter().any(|position| position.is_moved);
        if !self.is_exact || !is_moved {
            return Ok(found);
        }
        let answer = self.pass(trace, self.plain(picture), (&[], 0), cancel)?;
        (found.by_bucket, found.total) = (answer.by_bucket, answer.total);
        for (position, reached) in found.positions.iter_mut().zip(answer.positions) {
            if position.is_moved {
                (position.is_moved, position.at_ns) = (false, reached.at_ns);
            }
        }
        Ok(found)
    }
}

/// `GET /api/query`: what a rule finds, by bucket.
pub fn query(
    asked: &TraceView,
    parameters: &Parameters,
    cancel: &Cancel,
) -> Result<Value, CliError> {
    let picture = &*asked.picture;
    let question = Question::new(picture, parameters)?;
    let found = question.find(picture, &asked.trace, cancel)?;
    let has_declined = question.rule() == Rule::GrownAndDeclined;
    let none = Found::default();
    let rows: Vec<_> = found.by_bucket.iter().enumerate().filter(|(_, of)| **of != none).collect();
    let column = |of: fn(&Found) -> u64| -> Value {
        rows.iter().map(|(_, found)| of(found)).collect::<Vec<_>>().into()
    };
    let total = found.total;
    let mut buckets = json!({
        "bucket": rows.iter().map(|(bucket, _)| *bucket).collect::<Vec<_>>(),
        "blocks": column(|found| found.blocks),
        "bytes": column(|found| found.bytes),
    });
    let mut totals = json!({ "blocks": total.blocks, "bytes": total.bytes });
    if has_declined {
        buckets["declined_blocks"] = column(|found| found.declined_blocks);
        buckets["declined_bytes"] = column(|found| found.declined_bytes);
        totals["declined_blocks"] = total.declined_blocks.into();
        totals["declined_bytes"] = total.declined_bytes.into();
    }
    let mut document = head(&question, &found.positions);
    document.insert("is_growing".to_owned(), picture.is_growing.into());
    document.insert("buckets".to_owned(), buckets);
    document.insert("totals".to_owned(), totals);
    Ok(document.into())
}

/// What all answers about a rule begin with.
fn head(question: &Question, positions: &[IndexedPosition]) -> Map<String, Value> {
    let rule = question.rule();
    let mut document = Map::new();
    document.insert("schema".to_owned(), "memledger.view/1".into());
    document.insert("rule".to_owned(), rule.name().into());
    let mut moved = Vec::new();
    for (name, position) in ["a", "b", "c", "d"].iter().zip(positions) {
        document.insert(format!("{name}_ns"), position.at_ns.into());
        if position.is_moved {
            moved.push(json!({
                "position": name, "asked_ns": position.asked_ns, "at_ns": position.at_ns,
            }));
        }
    }
    // The steps of the index are too far apart for these positions; `exact=1` reads the trace again.
    document.insert("moved".to_owned(), moved.into());
    document
}

/// `GET /api/blocks`: the largest single blocks that a rule finds in some buckets.
pub fn blocks(
    asked: &TraceView,
    parameters: &Parameters,
    cancel: &Cancel,
) -> Result<Value, CliError> {
    let picture = &*asked.picture;
    let question = Question::new(picture, parameters)?;
    let buckets = parameters.get("bucket").map_or("", String::as_str);
    let buckets = buckets_of(picture, buckets)?;
    let limit = match parameters.get("limit") {
        None => BLOCKS,
        Some(text) => number(text, "limit")? as usize,
    };
    if limit > MAX_BLOCKS {
        return Err(CliError::Usage(format!("limit is {limit}, but can be at most {MAX_BLOCKS}")));
    }
    let unanswered = |why| question.unanswered(why);
    let at = picture.index.find(question.rule(), &question.positions).map_err(unanswered)?;
    // The same positions as those of the figures.
    let mut positions = question.plain(picture);
    let mut shown = at.positions;
    for (position, at) in positions.iter_mut().zip(&mut shown) {
        if at.is_moved && question.is_exact {
            (at.is_moved, at.at_ns) = (false, at.asked_ns);
        } else if let Some(step) = picture.index.steps.get(at.step as usize) {
            *position = Position::Event(step.before.event);
        }
    }
    let event = |position: &Position| match position {
        Position::Event(event) => Some(*event),
        _ => None,
    };
    let rule = question.rule();
    // A moment between two steps takes a pass.
    let events: Option<Vec<u64>> = positions.iter().map(event).collect();
    let kept = match (asked.lives(cancel), events) {
        (Some(lives), Some(events)) => lives.largest(rule, &events, &buckets, limit).ok(),
        _ => None,
    };
    let was_kept = kept.is_some();
    let blocks = match kept {
        Some(blocks) => blocks,
        None => {
            let answer = question.pass(&asked.trace, positions, (&buckets, limit), cancel)?;
            answer.blocks.iter().map(|found| found.single).collect()
        }
    };
    let mut document = head(&question, &shown);
    let rows: Vec<_> = blocks.iter().map(|single| block_json(picture, single)).collect();
    document.insert("blocks".to_owned(), rows.into());
    document.insert("took_a_pass".to_owned(), (!was_kept).into());
    Ok(document.into())
}

fn block_json(picture: &Picture, single: &SingleBlock) -> Value {
    let life = &single.life;
    let (freed_by_event, freed_at_ns) = single.freed().unzip();
    json!({
        "address": address(life.address),
        "bytes": life.bytes,
        "allocated_at_ns": life.allocated_at_ns,
        "event": life.begun,
        "freed_at_ns": freed_at_ns,
        "freed_by_event": freed_by_event,
        "has_declined": single.has_declined,
        "bucket": life.bucket,
        "thread": thread_of(picture, life.bucket),
    })
}

/// The name of the thread that has allocated the blocks of a bucket.
fn thread_of(picture: &Picture, bucket: u32) -> Option<&str> {
    let thread = *picture.threads.get(bucket as usize)?;
    picture.thread_names.get(thread as usize).map(String::as_str)
}

/// `GET /api/block`: what has happened to one block.
pub fn block(
    asked: &TraceView,
    parameters: &Parameters,
    cancel: &Cancel,
) -> Result<Value, CliError> {
    let picture = &*asked.picture;
    let event = parameters.get("event");
    let event = event.ok_or_else(|| CliError::Usage("event is missing: its number".to_owned()))?;
    let event = number(event, "event")?;
    let kept = match asked.lives(cancel) {
        Some(lives) => lives.history(event).ok(),
        None => None,
    };
    let was_kept = kept.is_some();
    let history = match kept {
        Some(history) => history,
        None => {
            let is_stopped = || cancel.check().is_err();
            let file = LivesFile::up_to(&asked.trace, picture.end(), &is_stopped)?;
            let lives = Lives::new(&file, &picture.index, cancel);
            lives.map_or(Ok(Vec::new()), |lives| lives.history(event))?
        }
    };
    if history.is_empty() {
        return Err(CliError::Usage(format!("event {event} has changed no block")));
    }
    let entries: Vec<_> = history.iter().map(|entry| entry_json(picture, entry)).collect();
    Ok(json!({
        "schema": "memledger.view/1",
        "event": event,
        "history": entries,
        "took_a_pass": !was_kept,
    }))
}

fn entry_json(picture: &Picture, entry: &Entry) -> Value {
    let mut row = json!({
        "what": entry.what,
        "event": entry.event,
        "at_ns": entry.at_ns,
        "address": address(entry.address),
        "bytes": entry.bytes,
        "bucket": entry.bucket,
    });
    if let Some(bytes_before) = entry.bytes_before {
        row["bytes_before"] = bytes_before.into();
    }
    match &entry.by {
        Some(by) => {
            row["thread"] = by.thread.clone().into();
            row["path"] = by.path.clone().into();
        }
        None => row["thread"] = thread_of(picture, entry.bucket).into(),
    }
    row
}

fn address(address: u64) -> String {
    format!("{address:#x}")
}

fn number(text: &str, name: &str) -> Result<u64, CliError> {
    text.trim().parse().map_err(|_| CliError::Usage(format!("{name} is {text:?}, not a number")))
}

/// Buckets with commas between them.
fn buckets_of(picture: &Picture, text: &str) -> Result<Vec<u32>, CliError> {
    let bucket = |part: &str| {
        let number = number(part, "bucket")?;
        let is_there = number < picture.threads.len() as u64;
        is_there.then_some(number as u32).ok_or_else(|| {
            let count = picture.threads.len();
            CliError::Usage(format!(
                "bucket is {number}, but there are only {count}, counted from 0"
            ))
        })
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(bucket).collect()
}
