//! Bookmarks: moments with a name, as Unreal's `Misc.Bookmark`.
#![expect(unsafe_code, reason = "made by `event!`, which vouches for it")]

use crate::events::channel::Channel;
use crate::platform::clock;
use crate::trace::write::{program, untracked};
use std::borrow::Cow;
use std::fmt::Arguments;
use std::sync::atomic::{AtomicBool, Ordering};

/// On by default, because a program sets few bookmarks, and sets each of them deliberately.
pub(crate) static BOOKMARK: Channel = Channel::on_by_default("Bookmark");

crate::events::event! {
    BookmarkSpec = "Misc"."BookmarkSpec" [Important, NoSync] {
        BookmarkPoint: u64,
        Line: i32,
        FormatString: WideString,
        FileName: AnsiString,
    }
    Bookmark = "Misc"."Bookmark" { Cycle: u64, BookmarkPoint: u64, FormatArgs: [u8] }
}

/// The source location of a bookmark.
#[doc(hidden)]
#[derive(Debug)]
pub struct BookmarkSite {
    file: &'static str,
    line: u32,
    /// Whether its `BookmarkSpec` was logged.
    known: AtomicBool,
}

impl BookmarkSite {
    pub const fn new(file: &'static str, line: u32) -> Self {
        Self { file, line, known: AtomicBool::new(false) }
    }

    /// Sets the bookmark, if its channel is enabled.
    pub fn set(&'static self, text: Arguments<'_>) {
        if !(program::is_on() && BOOKMARK.is_enabled()) {
            return;
        }
        let text = text.as_str().map_or_else(|| Cow::Owned(text.to_string()), Cow::Borrowed);
        let point = std::ptr::from_ref(self).addr() as u64;
        // NOTE: one thread logs the description. Another thread that sets the same bookmark at the
        // same time may log its event before the description.
        if !self.known.swap(true, Ordering::Relaxed) {
            let (line, file) = (self.line as i32, self.file);
            crate::events::log!(
                BOOKMARK,
                BookmarkSpec {
                    BookmarkPoint: point,
                    Line: line,
                    FormatString: "%s",
                    FileName: file,
                }
            );
        }
        let arguments = untracked(|| arguments(&text));
        crate::events::log!(
            BOOKMARK,
            Bookmark {
                Cycle: clock::now_since_start(),
                BookmarkPoint: point,
                FormatArgs: &arguments,
            }
        );
        untracked(move || drop(arguments));
    }
}

/// The encoding of one argument, for the format string `%s`: a UTF-16 string with a NUL at its end.
///
/// ```text
/// u8 1 argument   u8 category 3 (string) << 6 | 2 bytes each   units   u16 0
/// ```
fn arguments(text: &str) -> Vec<u8> {
    let mut bytes = vec![1, 3 << 6 | 2];
    // A NUL would end the text.
    let units = text.encode_utf16().filter(|unit| *unit != 0).chain([0]);
    bytes.extend(units.flat_map(u16::to_le_bytes));
    bytes
}

/// Names this moment. Readers show the name, and `memledger report --at 'bookmark:after warm-up'`
/// prints the report of this moment.
///
/// ```
/// # let level = 7;
/// memledger::bookmark!("after warm-up");
/// memledger::bookmark!("level {level} loaded");
/// ```
/// Takes a format string and its arguments, as `println!` does. Costs about 1 µs while something is
/// recorded. Bookmarks are on the channel `bookmark`, which is on unless it is turned off.
#[macro_export]
macro_rules! bookmark {
    ($($text:tt)+) => {{
        static SITE: $crate::__private::BookmarkSite =
            $crate::__private::BookmarkSite::new(::core::file!(), ::core::line!());
        SITE.set(::core::format_args!($($text)+));
    }};
}

#[cfg(test)]
mod tests {
    #[test]
    fn exact_bytes_of_the_arguments() {
        assert_eq!(super::arguments("a\0é"), [1, 0xc2, b'a', 0, 0xe9, 0, 0, 0]);
        assert_eq!(super::arguments(""), [1, 0xc2, 0, 0]);
    }
}
