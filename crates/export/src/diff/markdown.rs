//! A difference as Markdown, for a comment on a pull request.

use super::compared::{Diff, DiffOptions, column};
use super::rows::Total;
use super::rows::{counts, signed, totals};
use crate::options::Sort;
use crate::text::{bytes_briefly, count};
use memledger_format::words;
use std::io::{self, Write};

pub(super) fn write(diff: &Diff<'_>, options: &DiffOptions, out: &mut dyn Write) -> io::Result<()> {
    let all = totals(diff.old, diff.new);
    let program = diff.new.trace.program.as_deref().or(diff.old.trace.program.as_deref());
    let program = program.map_or("the program".to_owned(), code);
    let peak = &all[0];
    let change = match peak.sides {
        [old, new] if old == new => "peak unchanged".to_owned(),
        sides => format!("peak {} ({})", signed(sides, true), peak.share()),
    };
    writeln!(out, "### Memory of {program}: {change}\n")?;
    let [old, new] = options.names.each_ref().map(|name| code(name));
    writeln!(out, "| | {old} | {new} | change | |\n|---|--:|--:|--:|--:|")?;
    for total in &all {
        let Total { name, is_bytes, sides } = total;
        let [old, new] = sides.map(|side| number(side, *is_bytes));
        let change = signed(*sides, *is_bytes);
        writeln!(out, "| {name} | {old} | {new} | {change} | {} |", total.share())?;
    }
    for (table, (by, _)) in diff.tables.iter().enumerate() {
        let (rows, of_state) = diff.changed(table, options);
        let (noun, column) = (by.name(), column(options.sort, *by));
        let summary = counts(&of_state);
        let summary = if summary.is_empty() { "no rows".to_owned() } else { summary };
        writeln!(out, "\n<details><summary>By {noun}, {column}: {summary}</summary>\n")?;
        if !rows.is_empty() {
            writeln!(out, "| {noun} | change | | old | new |\n|---|--:|--:|--:|--:|")?;
        }
        let is_bytes = options.sort != Sort::Count;
        for row in rows.iter().take(options.top) {
            let change = signed([row.old, row.new], is_bytes);
            let [old, new] = [row.old, row.new].map(|side| number(side, is_bytes));
            let name = code(&row.name(*by));
            writeln!(out, "| {name} | {change} | {} | {old} | {new} |", row.share())?;
        }
        if rows.len() > options.top {
            writeln!(out, "\n… and {} more", count((rows.len() - options.top) as u64))?;
        }
        writeln!(out, "\n</details>")?;
    }
    Ok(())
}

fn number(figure: u64, is_bytes: bool) -> String {
    if is_bytes { bytes_briefly(figure) } else { count(figure) }
}

/// A name as code that nothing in it can end: neither a table, nor HTML, nor Markdown.
///
/// NOTE: not between backquotes: a `|` would have to be escaped there, and a backslash before it could not
/// be.
fn code(name: &str) -> String {
    let mut text = String::from("<code>");
    for char in words::escape(name).chars() {
        // Links are made of `www.` and `https:`; other letters and digits are themselves.
        let is_plain = char.is_alphanumeric() || matches!(char, ' ' | ',' | '-' | '/' | '(' | ')');
        if is_plain || !char.is_ascii() {
            text.push(char);
        } else {
            text += &format!("&#{};", u32::from(char));
        }
    }
    text + "</code>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_neither_a_table_nor_html() {
        for (name, expected) in [
            ("parse file", "parse file"),
            ("a::b<T>", "a&#58;&#58;b&#60;T&#62;"),
            ("a\\|b", "a&#92;&#124;b"),
            ("`*_x_*` @you #1", "&#96;&#42;&#95;x&#95;&#42;&#96; &#64;you &#35;1"),
            ("</code></details>", "&#60;/code&#62;&#60;/details&#62;"),
            ("a\nb", "a&#92;nb"),
            ("日本 é …", "日本 é …"),
        ] {
            assert_eq!(code(name), format!("<code>{expected}</code>"), "{name}");
        }
    }
}
