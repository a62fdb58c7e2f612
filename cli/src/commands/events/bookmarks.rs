//! The text of bookmarks, which a trace holds as a format string and its arguments.

use memledger_analysis::bookmark_text;
use memledger_analysis::read::{Event, Value};
use memledger_format::schema::EventType;
use std::collections::HashMap;

/// At most this many format strings are kept.
const MAX_FORMATS: usize = 1 << 16;

/// The role of an event type for bookmarks.
#[derive(Clone, Copy)]
pub enum BookmarkRole {
    /// It declares the text of a bookmark site: the fields of the site and of the text.
    Spec { point: usize, format: usize },
    /// It is a bookmark: the fields of the site and of the values.
    Set { point: usize, arguments: usize },
}

impl BookmarkRole {
    pub fn of(event_type: &EventType) -> Option<Self> {
        let point = event_type.field("BookmarkPoint");
        if event_type.is("Misc", "BookmarkSpec") {
            Some(Self::Spec { point: point?, format: event_type.field("FormatString")? })
        } else if event_type.is("Misc", "Bookmark") {
            Some(Self::Set { point: point?, arguments: event_type.field("FormatArgs")? })
        } else {
            None
        }
    }
}

/// The format strings of the bookmark sites, by site.
#[derive(Default)]
pub struct Bookmarks(HashMap<u64, String>);

impl Bookmarks {
    /// The text of a bookmark. Remembers the format string if the event declares one.
    pub fn text(&mut self, role: BookmarkRole, event: &Event<'_>) -> Option<String> {
        match role {
            BookmarkRole::Spec { point, format } => {
                if let (Some(Value::Unsigned(point)), Some(Value::Text(format))) =
                    (event.value(point), event.value(format))
                    && self.0.len() < MAX_FORMATS
                {
                    self.0.insert(point, format.into_owned());
                }
                None
            }
            BookmarkRole::Set { point, arguments } => {
                let Some(Value::Unsigned(point)) = event.value(point) else { return None };
                let format = self.0.get(&point)?;
                Some(bookmark_text(format, &event.bytes(arguments)))
            }
        }
    }
}
