//! How much there is to read, in figures. They are printed
//! (`cargo test --test layers figures -- --nocapture`), and none may grow past its number here: a change that
//! makes one smaller writes the new number.

use super::circles::Circles;
use super::sources::{code_only, every, every_of};

/// The most lines of each folder of Rust files, with comments and inline tests; of `tests`, without those of
/// folders that have a row of their own.
const LINES: &[(&str, usize)] = &[
    // What goes unseen: exec, handles, prefixes, filters, stacks of ended threads, parts of RSS.
    // The code of Python's trampolines, with its test. Children that are not followed.
    ("src", 64_950),
    ("crates/format/src", 9_048),
    // Places of sets, and who has most of the peak, which were in `crates/analysis` and `crates/export`.
    // The set of a finding, which JSON and `query --finding` have.
    // Each set with a quarter of the peak, and whose objects lie in pieces.
    // One name for the generics of a function, with what it needs of `crates/export`.
    ("crates/document/src", 4_846),
    // Kinds of findings with a witness each, and facts; sentences of twelve kinds went out of the writers.
    // Lifetimes in queries, estimates of their rows by a sample, and the numbers of what they find.
    // Sites of findings in half of the memory. What 21 planted programs showed to be missed: growth by
    // small parts, few calls for large blocks.
    ("crates/analysis/src", 30_831),
    // Tests of the line on resident memory and of where tables end; shapes over time went out.
    // Lifetimes and estimates in answers; children that are in no report.
    ("crates/export/src", 11_565),
    ("crates/store/src", 3_551),
    // Conditions with intervals, checks of outputs before the start; names in the text of a black box; the
    // test of what `top` is sent, which was in `crates/export`.
    // Traces of the last runs, with one variable for all that is kept; the variable of symbols went.
    // Tables of the blocks of a finding, and of live blocks with all that is known of them. What people of
    // other tools type.
    ("cli/src", 18_712),
    // With the circles of rooms, the flag of the watcher, and the programs that were in `scripts`, whose
    // unsafe code has its reasons now.
    ("tests", 27_125),
    // The runner, in place of what each script did for itself.
    // It prints which tests ran.
    ("tests/checks", 1_947),
    ("crates/analysis/tests", 12_134),
    ("crates/export/tests", 928),
    ("cli/tests", 7_861),
];

/// Lines of shell and Python in `scripts`.
const MAX_SCRIPT_LINES: usize = 8_190;

/// The crates whose code is looked at.
pub const CRATES: [&str; 7] = [
    "src",
    "crates/format/src",
    "crates/document/src",
    "crates/analysis/src",
    "crates/export/src",
    "crates/store/src",
    "cli/src",
];

/// Lines that name a feature, or whether the tracker or its analyzer is compiled.
const MAX_FEATURE_LINES: usize = 205;
/// Functions of more than 60 lines, but for those of [`LONG`].
const MAX_LONG_FUNCTIONS: usize = 0;
/// Structs of more than 20 fields.
const MAX_LARGE_STRUCTS: usize = 2;
/// Functions that stay long: the first words of their file and name, and the reason.
const LONG: &[(&str, &str)] = &[
    ("cli/src/commands/export/rows.rs observe", TABLE),
    ("crates/analysis/src/apply/model/batch.rs apply_consecutive", PERF),
    ("crates/analysis/src/decode/by_name.rs memledger", TABLE),
    ("crates/analysis/src/read/merge/deliver.rs deliver_front", PERF),
    ("crates/analysis/src/read/merge/fast_path.rs deliver_directly", PERF),
    ("crates/format/src/compact/decode.rs fast_path", PERF),
    ("crates/format/src/compact/encode.rs fast_path", PERF),
];
const TABLE: &str = "an arm for each kind";
const PERF: &str = "one loop with its state in registers";

/// Files in circles of more than three, but for those of [`CIRCLES`].
const MAX_FILES_IN_CIRCLES: usize = 0;

/// Rooms in circles, by crate; those that are not here have none.
const MAX_ROOMS_IN_CIRCLES: &[(&str, usize)] = &[];

/// Circles of more than three files that stay: one of the files, and the reason.
const CIRCLES: &[(&str, &str)] = &[(
    "src/trace/write/buffer.rs",
    "one protocol between a thread and the worker, a file for each part",
)];

/// The functions, or the structs, that have a body: their names, and their lines. The code is as rustfmt
/// writes it: an item ends at the brace that is as far from the left as its first word.
fn items<'a>(code: &'a str, keyword: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    const BEFORE: [&str; 7] =
        ["pub(crate)", "pub(super)", "pub", "const", "async", "unsafe", "extern \"C\""];
    let lines: Vec<&str> = code.lines().collect();
    let begins = |line: &'a str| {
        let (before, rest) = line.trim_start().split_once(keyword)?;
        let words = BEFORE.iter().fold(before.to_owned(), |left, word| left.replacen(word, "", 1));
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        words.trim().is_empty().then_some(&rest[..end])
    };
    let item = |at: usize| {
        let name = begins(lines[at])?;
        let head = lines[at..].iter().find(|line| line.ends_with(['{', '}', ';']))?;
        let indent = &lines[at][..lines[at].len() - lines[at].trim_start().len()];
        let length = lines[at..].iter().position(|line| line.strip_prefix(indent) == Some("}"))?;
        head.ends_with('{').then(|| (name, lines[at..=at + length].to_vec()))
    };
    (0..lines.len()).filter_map(item).collect()
}

/// What is longer than `most`, the longest last.
fn longer(most: usize, items: impl Iterator<Item = (usize, String)>) -> Vec<(usize, String)> {
    let mut found: Vec<_> = items.filter(|(size, _)| *size > most).collect();
    found.sort();
    found
}

#[test]
fn none_grows() {
    let files: Vec<_> = CRATES.into_iter().flat_map(every).collect();
    let is_test = |file: &str| file.ends_with("/tests.rs") || file.contains("/tests/");
    let code: Vec<_> = files
        .into_iter()
        .filter(|(file, _)| !is_test(file))
        .map(|(file, text)| (file, code_only(&text)))
        .collect();
    let sizes = |keyword: &'static str, size: fn(&[&str]) -> usize| {
        code.iter().flat_map(move |(file, code)| {
            let items = items(code, keyword).into_iter();
            items.map(move |(name, lines)| (size(&lines), format!("{file} {name}")))
        })
    };
    let long = longer(60, sizes("fn ", |lines| lines.len()));
    let stay =
        LONG.iter().filter(|(place, _)| long.iter().any(|(_, found)| found == place)).count();
    assert_eq!(stay, LONG.len(), "a function of the list is no longer long");
    let large = longer(20, sizes("struct ", |lines| lines.iter().filter(|l| is_field(l)).count()));
    let stays =
        |circle: &[String]| CIRCLES.iter().any(|(file, _)| circle.iter().any(|f| f == file));
    let circles = CRATES.into_iter().flat_map(|folder| Circles::of(folder).0);
    let circles = circles.filter(|circle| !stays(circle));
    let circles = longer(3, circles.map(|circle| (circle.len(), circle.join(" "))));
    for (size, what) in long.iter().chain(&large).chain(&circles) {
        println!("{size:>4} {what}");
    }
    let features = code.iter().flat_map(|(_, code)| code.lines());
    let features = features
        .filter(|line| {
            let is_ours = line.contains("tracking") || line.contains("(report");
            line.contains("feature = \"") || line.contains("cfg") && is_ours
        })
        .count();
    let in_circles = circles.iter().map(|(size, _)| size).sum();
    let mut figures = vec![
        ("lines that name a feature".to_owned(), features, MAX_FEATURE_LINES),
        ("functions of more than 60 lines".to_owned(), long.len() - stay, MAX_LONG_FUNCTIONS),
        ("structs of more than 20 fields".to_owned(), large.len(), MAX_LARGE_STRUCTS),
        ("files in circles of more than 3".to_owned(), in_circles, MAX_FILES_IN_CIRCLES),
    ];
    for folder in CRATES {
        let rooms = Circles::of_rooms(folder).0;
        let print =
            |circle: &Vec<String>| println!("{:>4} {folder}: {}", circle.len(), circle.join(" "));
        rooms.iter().for_each(print);
        let most = MAX_ROOMS_IN_CIRCLES.iter().find(|(of, _)| *of == folder);
        let count = rooms.iter().map(Vec::len).sum();
        figures.push((
            format!("rooms of {folder} in circles"),
            count,
            most.map_or(0, |most| most.1),
        ));
    }
    for &(folder, most) in LINES {
        let other = |file: &str| {
            LINES.iter().any(|(other, _)| other.len() > folder.len() && is_below(file, other))
        };
        let files = every(folder).into_iter().filter(|(file, _)| !other(file));
        figures.push((format!("lines of {folder}"), lines(files), most));
    }
    let scripts = every_of("scripts", &["sh", "py"]).into_iter();
    figures.push(("lines of scripts".to_owned(), lines(scripts), MAX_SCRIPT_LINES));
    let mut grown = 0;
    for (name, now, most) in figures {
        println!("{name}: {now}, at most {most}");
        grown += usize::from(now > most);
    }
    assert_eq!(grown, 0, "figures above are larger than they may be");
}

fn is_below(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

fn lines(files: impl Iterator<Item = (String, String)>) -> usize {
    files.map(|(_, text)| text.lines().count()).sum()
}

pub(super) fn is_field(line: &str) -> bool {
    let field = line.strip_prefix("    ").unwrap_or("");
    !field.starts_with([' ', '#']) && field.contains(": ")
}
