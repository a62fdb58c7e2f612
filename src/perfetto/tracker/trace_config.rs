//! Perfetto's `TraceConfig` as text: the part of it that applies to a session of this process.
//!
//! ```text
//! buffers { size_kb: 4096 fill_policy: RING_BUFFER }
//! data_sources { config { name: "track_event"  track_event_config {
//!     enabled_categories: "game*"  disabled_categories: "*"
//! } } }
//! incremental_state_config { clear_period_ms: 5000 }
//! ```
//! The syntax is that of protocol buffers as text: `name: value`, `name { .. }`, `name: [a, b]`, comments
//! with `#`, and strings in either kind of quotes. There is no library for it without a compiled schema.

use crate::error::{Error, ErrorKind};
use crate::perfetto::config::TrackEvents;
use std::num::NonZeroU64;
use std::time::Duration;

/// The most bytes of a configuration.
const MAX_BYTES: usize = 256 << 10;
/// The most messages within one another.
const MAX_DEPTH: usize = 16;

/// The data source whose name says that a session has memory, and the time from one heap profile to the next
/// if it does not say one.
const HEAP_PROFILE: &str = "android.heapprofd";
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// The messages whose fields mean something, but for those of data sources.
const MESSAGES: [&str; 6] = [
    "buffers",
    "data_sources",
    "incremental_state_config",
    "track_event/track_event_config",
    "heapprofd/heapprofd_config",
    "heapprofd/heapprofd_config/continuous_dump_config",
];

/// Reads a configuration. The sentence names the keys that have no effect here, if there are some.
///
/// # Errors
/// [`ErrorKind::InvalidSession`], with the line.
pub(crate) fn parse_trace_config(text: &str) -> Result<(TrackEvents, Option<String>), Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::new(
            ErrorKind::InvalidSession,
            format!(
                "the configuration has {} bytes, more than the {MAX_BYTES} that are possible",
                text.len()
            ),
        ));
    }
    let mut parser = Parser { rest: text, line: 1 };
    let fields = parser.fields(0, true).map_err(|why| {
        Error::new(
            ErrorKind::InvalidSession,
            format!("line {} of the configuration: {why}", parser.line),
        )
    })?;
    let mut found = Found::default();
    found.take("", &fields).and_then(|()| found.take_buffer()).map_err(|why| {
        Error::new(ErrorKind::InvalidSession, format!("the configuration: {why}"))
    })?;
    found.events.config.check()?;
    let unsupported = found.unsupported.join(", ");
    let note = (!unsupported.is_empty()).then(|| format!("{unsupported} has no effect here"));
    Ok((found.events, note))
}

/// What a configuration says.
#[derive(Default)]
struct Found {
    events: TrackEvents,
    buffer: Buffer,
    /// The keys that have no effect here, each with its line.
    unsupported: Vec<String>,
}

impl Found {
    /// Takes the fields of the message at `path`, which ends in a slash unless it is the outermost one.
    fn take(&mut self, path: &str, fields: &[Field]) -> Result<(), String> {
        for field in fields {
            let path = format!("{path}{}", field.name);
            let (events, buffer) = (&mut self.events, &mut self.buffer);
            let config = &mut events.config;
            match (&*path, &field.value) {
                (path, Value::Message(fields)) if MESSAGES.contains(&path) => {
                    self.take(&format!("{path}/"), fields)?;
                }
                ("data_sources/config", Value::Message(source)) => self.data_source(source)?,
                ("buffers/size_kb", value) => buffer.bytes = value.number(field)? << 10,
                ("buffers/fill_policy", Value::Text(policy)) if policy == "RING_BUFFER" => {
                    buffer.is_ring = true;
                }
                ("incremental_state_config/clear_period_ms", value) => {
                    events.clear_period = Some(Duration::from_millis(value.number(field)?));
                }
                ("duration_ms", value) => {
                    // NOTE: 0 means no end, as in Perfetto.
                    let millis = Some(value.number(field)?).filter(|millis| *millis > 0);
                    events.duration = millis.map(Duration::from_millis);
                }
                ("track_event/track_event_config/enabled_categories", value) => {
                    config.enabled_categories.push(value.text(field)?);
                }
                ("track_event/track_event_config/disabled_categories", value) => {
                    config.disabled_categories.push(value.text(field)?);
                }
                ("track_event/track_event_config/enabled_tags", value) => {
                    config.enabled_tags.push(value.text(field)?);
                }
                ("track_event/track_event_config/disabled_tags", value) => {
                    config.disabled_tags.push(value.text(field)?);
                }
                ("track_event/track_event_config/disable_incremental_timestamps", value) => {
                    config.absolute_timestamps =
                        matches!(value, Value::Text(text) if text == "true" || text == "1");
                }
                ("track_event/track_event_config/timestamp_unit_multiplier", value) => {
                    let unit = NonZeroU64::new(value.number(field)?);
                    let none = || format!("line {}: {} is at least 1", field.line, field.name);
                    config.timestamp_unit_ns = Some(unit.ok_or_else(none)?);
                }
                ("heapprofd/heapprofd_config/continuous_dump_config/dump_interval_ms", value) => {
                    events.memory = Some(Duration::from_millis(value.number(field)?))
                }
                // A file is always written as the session goes, to one buffer.
                ("write_into_file", _) => {}
                (
                    "track_event/name"
                    | "track_event/target_buffer"
                    | "heapprofd/name"
                    | "heapprofd/target_buffer",
                    _,
                ) => {}
                _ => self.unsupported.push(format!("{} (line {})", field.name, field.line)),
            }
        }
        Ok(())
    }

    /// Takes a data source, whose name says what its fields mean.
    fn data_source(&mut self, fields: &[Field]) -> Result<(), String> {
        let name = fields.iter().find(|field| field.name == "name");
        let source = match name.map(|name| (&name.value, name.line)) {
            None => "track_event",
            Some((Value::Text(source), _)) => source,
            Some((Value::Message(_), line)) => {
                return Err(format!("line {line}: the name of a data source is a text"));
            }
        };
        match source {
            "track_event" => self.take("track_event/", fields),
            HEAP_PROFILE => {
                self.events.memory.get_or_insert(DEFAULT_INTERVAL);
                self.take("heapprofd/", fields)
            }
            _ => {
                let line = name.map_or(0, |name| name.line);
                self.unsupported.push(format!("the data source {source:?} (line {line})"));
                Ok(())
            }
        }
    }

    fn take_buffer(&mut self) -> Result<(), String> {
        let bytes = usize::try_from(self.buffer.bytes).unwrap_or(usize::MAX);
        self.events.ring = self.buffer.is_ring.then_some(bytes);
        if self.events.ring.is_some_and(|bytes| bytes > 1 << 30) {
            return Err(format!("a ring of {} MiB is larger than 1024 MiB", bytes >> 20));
        }
        Ok(())
    }
}

/// The buffer of a configuration.
#[derive(Default)]
struct Buffer {
    bytes: u64,
    is_ring: bool,
}

/// A field of a message in text form.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    value: Value,
    line: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// A number, a name or a string, without its quotes.
    Text(String),
    Message(Vec<Field>),
}

impl Value {
    fn number(&self, field: &Field) -> Result<u64, String> {
        let number = match self {
            Self::Text(text) => text.parse::<u32>().ok(),
            Self::Message(_) => None,
        };
        let refused =
            || format!("line {}: {} is a number below 4294967296", field.line, field.name);
        number.map(u64::from).ok_or_else(refused)
    }

    fn text(&self, field: &Field) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Message(_) => Err(format!("line {}: {} is a text", field.line, field.name)),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    line: usize,
}

impl Parser<'_> {
    /// The fields up to the end of the message, or of the text if this is the outermost one.
    fn fields(&mut self, depth: usize, is_outermost: bool) -> Result<Vec<Field>, String> {
        if depth > MAX_DEPTH {
            return Err(format!("there are more than {MAX_DEPTH} messages within one another"));
        }
        let mut fields = Vec::new();
        loop {
            self.skip();
            if self.rest.is_empty() && is_outermost {
                return Ok(fields);
            }
            if !is_outermost && self.take('}') {
                return Ok(fields);
            }
            let line = self.line;
            let name = self.word();
            if name.is_empty() {
                return Err(match self.rest.chars().next() {
                    Some(other) => format!("the name of a field was expected, not {other:?}"),
                    None => "a } is missing at the end".into(),
                });
            }
            self.skip();
            let has_colon = self.take(':');
            self.skip();
            if self.take('[') {
                while !self.take(']') {
                    let value = self.value(depth, true)?;
                    fields.push(Field { name: name.clone(), value, line });
                    self.skip();
                    self.take(',');
                    self.skip();
                    if self.rest.is_empty() {
                        return Err("a ] is missing at the end".into());
                    }
                }
            } else {
                let value = self.value(depth, has_colon)?;
                fields.push(Field { name, value, line });
            }
            self.skip();
            let _ = self.take(',') || self.take(';');
        }
    }

    fn value(&mut self, depth: usize, may_be_text: bool) -> Result<Value, String> {
        self.skip();
        if self.take('{') {
            return self.fields(depth + 1, false).map(Value::Message);
        }
        if !may_be_text {
            return Err("a : or a { was expected after the name of a field".into());
        }
        match self.rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let mut text = self.string(quote)?;
                // Strings beside one another are one.
                self.skip();
                while let Some(quote @ ('"' | '\'')) = self.rest.chars().next() {
                    text += &self.string(quote)?;
                    self.skip();
                }
                Ok(Value::Text(text))
            }
            _ => {
                let word = self.word();
                if word.is_empty() {
                    return Err("a value was expected after the name of a field".into());
                }
                Ok(Value::Text(word))
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\n' => break,
                '\\' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, other @ ('\\' | '"' | '\''))) => text.push(other),
                    _ => {
                        return Err(
                            "only \\n, \\t, \\\\ and quotes can follow a \\ in a string".into()
                        );
                    }
                },
                other if other == quote => {
                    self.rest = self.rest.get(at + 1..).unwrap_or_default();
                    return Ok(text);
                }
                other => text.push(other),
            }
        }
        Err(format!("the string has no {quote} at its end"))
    }

    /// A name or a number.
    fn word(&mut self) -> String {
        let is_part = |c: char| c.is_alphanumeric() || ['_', '.', '-', '+'].contains(&c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    /// Skips spaces and comments.
    fn skip(&mut self) {
        while let Some(next) = self.rest.chars().next() {
            if next == '#' {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = self.rest.get(end..).unwrap_or_default();
            } else if next.is_whitespace() {
                self.line += usize::from(next == '\n');
                self.rest = self.rest.get(next.len_utf8()..).unwrap_or_default();
            } else {
                return;
            }
        }
    }

    fn take(&mut self, expected: char) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::config::TrackEventConfig;

    #[test]
    fn what_applies_is_read_and_the_rest_is_named() {
        let text = r#"
            # As in Perfetto's documentation.
            buffers: { size_kb: 4096, fill_policy: RING_BUFFER }
            data_sources { config {
                name: "track_event"
                track_event_config {
                    enabled_categories: ["game*", 'net' "work"]
                    disabled_categories: "*"; enabled_tags: "a\"b"
                    timestamp_unit_multiplier: 1000 disable_incremental_timestamps: true
                    filter_debug_annotations: true
                }
            } }
            data_sources: { config { name: "linux.ftrace" ftrace_config { ftrace_events: "x" } } }
            incremental_state_config { clear_period_ms: 5000 }
            data_sources { config { name: "android.heapprofd" heapprofd_config {
                continuous_dump_config { dump_interval_ms: 250 }
            } } }
            write_into_file: true
            duration_ms: 10000
            max_file_size_bytes: 5
        "#;
        let (events, note) = parse_trace_config(text).unwrap();
        let expected = TrackEventConfig::default()
            .enable("game*")
            .enable("network")
            .disable("*")
            .enable_tag("a\"b")
            .timestamp_unit_ns(NonZeroU64::new(1000).unwrap())
            .absolute_timestamps(true);
        let expected = TrackEvents { config: expected, ..TrackEvents::default() }
            .ring(4 << 20)
            .clear_period(Duration::from_secs(5))
            .duration(Duration::from_secs(10))
            .memory(Duration::from_millis(250));
        assert_eq!(events, expected);
        let unsupported = "filter_debug_annotations (line 10), the data source \"linux.ftrace\" (line 13), \
                           max_file_size_bytes (line 20) has no effect here";
        assert_eq!(note.as_deref(), Some(unsupported));
        assert_eq!(parse_trace_config("").unwrap(), (TrackEvents::default(), None));
    }

    #[test]
    fn what_cannot_be_read_gets_a_sentence_with_its_line() {
        let sentence = |text: &str| parse_trace_config(text).unwrap_err().to_string();
        let mut deep = "a {".repeat(20);
        assert!(sentence(&deep).ends_with("there are more than 16 messages within one another"));
        deep.clear();
        for (text, expected) in [
            ("buffers {\n", "line 2 of the configuration: a } is missing at the end"),
            ("\n}", "line 2 of the configuration: the name of a field was expected, not '}'"),
            (
                "buffers 5",
                "line 1 of the configuration: a : or a { was expected after the name of a field",
            ),
            ("a: \"x", "line 1 of the configuration: the string has no \" at its end"),
            ("a: [1, 2", "line 1 of the configuration: a ] is missing at the end"),
            ("a:\n", "line 2 of the configuration: a value was expected after the name of a field"),
            (
                r#"a: "\q""#,
                "line 1 of the configuration: only \\n, \\t, \\\\ and quotes can follow a \\ in a string",
            ),
            (
                "buffers { size_kb: many }",
                "the configuration: line 1: size_kb is a number below 4294967296",
            ),
            (
                "data_sources { config { name: 'track_event' track_event_config {\ntimestamp_unit_multiplier: 0 } } }",
                "the configuration: line 2: timestamp_unit_multiplier is at least 1",
            ),
            (
                "buffers { size_kb: 4000000000 fill_policy: RING_BUFFER }",
                "the configuration: a ring of 3906250 MiB is larger than 1024 MiB",
            ),
        ] {
            assert_eq!(sentence(text), expected, "{text}");
        }
        assert!(sentence(&"#".repeat(1 << 20)).contains("has 1048576 bytes"));
        let patterns = "enabled_categories: 'x' ".repeat(8000);
        let many = format!("data_sources {{ config {{ track_event_config {{ {patterns} }} }} }}");
        assert!(sentence(&many).contains("it has 8000 patterns"));
    }

    /// A config of any bytes is read or refused.
    #[test]
    fn a_config_cut_anywhere_is_read_or_refused() {
        let text = r#"buffers: { size_kb: 4096 } a { b: [1, "x\n", { c: 'd' }], } # end"#;
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = parse_trace_config(&text[..end]);
            let _ = parse_trace_config(&text[end..]);
        }
    }
}
