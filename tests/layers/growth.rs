//! Public structs can get further fields: `#[non_exhaustive]`, or a field that is not public.

use super::figures::{CRATES, is_field};
use super::sources::sources;

/// The crates whose interface others use.
pub const PUBLISHED: &[&str] = CRATES.split_at(6).0;

/// Where structs have public fields only: the first words of their file and name, and the reason.
const FIXED: &[(&str, &str)] = &[
    ("crates/format/src/schema.rs", "what the wire format says of an event type"),
    ("crates/format/src/encode.rs", SISTERS),
    ("crates/format/src/callstacks/", SISTERS),
    ("crates/format/src/layout.rs", SISTERS),
    ("crates/format/src/protobuf/", SISTERS),
    ("crates/format/src/initial_live_set.rs", SISTERS),
    ("crates/analysis/src/accounts/tally.rs", SISTERS),
    ("crates/analysis/src/measured.rs", SISTERS),
    ("crates/document/src/calls.rs Unnamed", INTERNAL),
    ("crates/store/src/serve/catalogue.rs OpenTrace", INTERNAL),
    ("crates/store/src/serve/directory.rs TraceFile", INTERNAL),
    ("crates/store/src/serve/server.rs Server", INTERNAL),
    ("src/stacks/capture/fuzzing.rs", SISTERS),
    ("src/trace/write/declared.rs", SISTERS),
];
const SISTERS: &str = "hidden: for macros and for crates of the same version";
const INTERNAL: &str = "the module does not give it to others";

#[test]
fn public_structs_can_get_further_fields() {
    let mut rigid = Vec::new();
    for (file, code) in PUBLISHED.iter().flat_map(|folder| sources(folder)) {
        for (at, keyword) in code.match_indices("\npub struct ") {
            let item = &code[at + keyword.len()..];
            let name = item.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            let fields = item[..item.find("\n}").unwrap_or(0)].split_once(" {\n");
            let Some((_, fields)) = fields.filter(|(head, _)| !head.contains(';')) else {
                continue;
            };
            let before = code[..at].lines().rev();
            let mut before = before.take_while(|line| line.is_empty() || line.starts_with("#["));
            let grows =
                before.any(|line| line.contains("non_exhaustive") || line.contains("hidden"));
            let mut fields = fields.lines().filter(|line| is_field(line));
            if !grows && fields.all(|field| field.trim_start().starts_with("pub ")) {
                rigid.push(format!("{file} {name}"));
            }
        }
    }
    for (place, reason) in FIXED {
        let of_place = rigid.iter().any(|found| found.starts_with(place));
        assert!(of_place, "{place} is no longer fixed ({reason}): take it from the list");
    }
    rigid.retain(|found| !FIXED.iter().any(|(place, _)| found.starts_with(place)));
    assert!(rigid.is_empty(), "no field can be added to these: {rigid:#?}");
}
