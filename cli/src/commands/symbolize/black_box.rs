//! Functions in the text of a black box, which has files and offsets.

use crate::symbols::{SymbolArgs, symbolize};
use memledger_analysis::{Frame, Module, Report, SourceFrame, short_path};
use memledger_format::words::escape;
use std::collections::HashMap;
use std::io::{self, Write};

/// What a line of a frame begins with.
const INDENT: &[u8] = b"        ";

/// Whether a file that begins with these bytes is a text, and no trace.
pub(super) fn is_text(start: &[u8]) -> bool {
    // A character may be cut at the end.
    let is_utf_8 =
        std::str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_utf_8 && !start.is_empty() && !start.contains(&0)
}

/// Whether there is anything to name.
pub(super) fn has_frames(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| place(line).is_some())
}

/// Writes `text` with the functions of each line `        FILE+0xOFFSET` before it, if the file has the build
/// id that stood last beside it. All other lines stay. Returns how many lines have got functions.
pub(super) fn write(text: &[u8], args: &SymbolArgs, out: &mut dyn Write) -> io::Result<u64> {
    let mut report = Report::default();
    let mut modules = HashMap::new();
    let mut of_line = HashMap::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let Some((path, offset, build_id)) = place(line) else { continue };
        if !build_id.is_empty() || !modules.contains_key(path) {
            modules.insert(path, report.modules.len());
            report.modules.push(Module::new(path.to_owned(), 0, 0, build_id));
        }
        let module = modules[path];
        let mut frame = Frame::default();
        (frame.module, frame.offset) = (Some(module), offset);
        of_line.insert(number, report.frames.len());
        report.frames.push(frame);
    }
    symbolize(&mut report, args);
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let functions = of_line.get(&number).map_or(&[][..], |at| &report.frames[*at].functions);
        for (at, function) in functions.iter().enumerate() {
            let end = if at + 1 == functions.len() { "  " } else { "\n" };
            write!(out, "        {}{end}", shown(function))?;
        }
        out.write_all(if functions.is_empty() { line } else { &line[INDENT.len()..] })?;
    }
    Ok(report.frames.iter().filter(|frame| !frame.functions.is_empty()).count() as u64)
}

/// The file, the offset and the build id, if it is there, of such a line.
fn place(line: &[u8]) -> Option<(&str, u64, Vec<u8>)> {
    let text = std::str::from_utf8(line.strip_prefix(INDENT)?).ok()?.trim_end();
    let (path, rest) = text.rsplit_once("+0x")?;
    let (offset, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let build_id = rest.rsplit_once("build id ").map_or("", |(_, build_id)| build_id);
    let byte = |at| u8::from_str_radix(build_id.get(at..at + 2)?, 16).ok();
    let build_id = (0..build_id.len()).step_by(2).map(byte).collect::<Option<_>>()?;
    // A frame that has its function already stays.
    let is_path = path.starts_with(['/', '\\']) || path.get(1..3) == Some(":\\");
    is_path.then_some((path, u64::from_str_radix(offset, 16).ok()?, build_id))
}

/// `read (src/main.rs:12)`
fn shown(of: &SourceFrame) -> String {
    let line = of.line.map_or(String::new(), |line| format!(":{line}"));
    let at = of.file.as_deref().map(|file| format!(" ({}{line})", short_path(file)));
    escape(&format!("{}{}", of.function, at.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_with_a_file_and_an_offset_are_frames() {
        for (line, expected) in [
            ("        /a b/c+0x1f", Some(("/a b/c", 0x1f, vec![]))),
            ("        /a+0x2 [frame pointer]", Some(("/a", 2, vec![]))),
            ("        /a+0x2 [frame pointer] build id 0aff", Some(("/a", 2, vec![10, 255]))),
            ("        /a+0x2+0x3\r", Some(("/a+0x2", 3, vec![]))),
            ("        C:\\a.exe+0x10 build id 01", Some(("C:\\a.exe", 16, vec![1]))),
            ("        /a+0x2 build id 0a\u{e9}", None),
            ("        0x1f", None),
            ("        f (a.rs:1)  /a+0x2", None),
            ("      /a+0x2", None),
            ("        /a+0xg", None),
            ("        ...", None),
        ] {
            assert_eq!(place(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn what_has_no_frame_is_written_as_it_is() {
        for text in ["", "\n", "a\n\n b", "        /none/such+0x1\n"] {
            let text = [text.as_bytes(), b"\xff\n"].concat();
            let mut out = Vec::new();
            let args = SymbolArgs { folders: Vec::new(), no_debuginfod: true };
            assert_eq!(write(&text, &args, &mut out).unwrap(), 0);
            assert_eq!(out, text);
            assert_eq!(has_frames(&text), text.contains(&b'+'));
        }
    }

    #[test]
    fn a_text_has_no_zero_byte() {
        assert!(
            is_text(b"memledger: black box of process 7")
                && is_text("a\u{e9}".as_bytes())
                && is_text(b"a\xc3")
        );
        assert!(!is_text(b"") && !is_text(b"TRC\0") && !is_text(b"\xff\xfe"));
    }
}
