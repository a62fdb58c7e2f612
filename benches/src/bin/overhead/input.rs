//! What the programs work on: made, or found and cut to a size, the same in every run.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A program's input.
#[derive(Debug)]
pub(crate) struct Input {
    /// The file, or the list of files.
    pub(crate) path: PathBuf,
    /// In words.
    pub(crate) what: String,
}

/// A JSON document of `bytes`, made if it is not there: records of a mix of everything, nested as
/// the answer of a web service is.
pub(crate) fn json(folder: &Path, bytes: u64) -> Result<Input, Box<dyn Error>> {
    // The number is the generator's version: a change makes another file.
    let path = folder.join(format!("input-1-{}.json", bytes / 1_000_000));
    if !fs::metadata(&path).is_ok_and(|file| file.len() >= bytes) {
        let mut file = BufWriter::new(File::create(&path)?);
        let mut random = Random(1);
        let mut written = file.write(b"[")? as u64;
        while written < bytes {
            let separator = if written == 1 { "\n" } else { ",\n" };
            let record = format!("{separator}{}", record(&mut random));
            file.write_all(record.as_bytes())?;
            written += record.len() as u64;
        }
        file.write_all(b"\n]\n")?;
        file.flush()?;
    }
    let size = fs::metadata(&path)?.len();
    Ok(Input { path, what: format!("{:.1} MB of made-up JSON records", size as f64 / 1e6) })
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 16] = [
            "amber", "binary", "cat", "delivery", "ember", "fjord", "gigantic", "hue", "island",
            "jet", "kilowatt", "lime", "meridian", "note", "oxygen", "pi",
        ];
        WORDS[self.below(WORDS.len() as u64) as usize]
    }

    fn words(&mut self, most: u64) -> String {
        let count = 1 + self.below(most);
        (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}

fn record(random: &mut Random) -> String {
    let tags = (0..random.below(6)).map(|_| format!("\"{}\"", random.word())).collect::<Vec<_>>();
    let lines = (0..random.below(5))
        .map(|_| {
            format!(
                r#"{{"sku":"{}-{}","count":{},"price":{}.{:02},"note":{}}}"#,
                random.word(),
                random.below(100_000),
                random.below(20),
                random.below(500),
                random.below(100),
                if random.below(3) == 0 {
                    "null".to_owned()
                } else {
                    format!("\"{}\"", random.words(8))
                },
            )
        })
        .collect::<Vec<_>>();
    format!(
        r#"{{"id":{},"name":"{}","active":{},"score":{}.{:03},"position":[{},{}.5,-{}],"tags":[{}],"address":{{"street":"{}","city":"{}","code":"{:05}"}},"lines":[{}],"text":"{}"}}"#,
        random.below(1 << 31),
        random.words(3),
        random.below(2) == 0,
        random.below(1000),
        random.below(1000),
        random.below(4096),
        random.below(4096),
        1 + random.below(4096),
        tags.join(","),
        random.words(3),
        random.word(),
        random.below(100_000),
        lines.join(","),
        random.words(24),
    )
}

/// A list of Rust sources, at most `bytes` of them together.
pub(crate) fn sources(
    folder: &Path,
    asked: &[PathBuf],
    bytes: u64,
) -> Result<Input, Box<dyn Error>> {
    let folders = if asked.is_empty() { packages()? } else { asked.to_vec() };
    let mut found = Vec::new();
    for folder in &folders {
        find(&fs::canonicalize(folder)?, &mut found)?;
    }
    // Folders list their files in any order.
    found.sort();
    let (mut list, mut files, mut total) = (String::new(), 0, 0);
    for (path, size) in found {
        if total + size > bytes {
            continue;
        }
        total += size;
        files += 1;
        list.push_str(path.to_str().ok_or("a path is not UTF-8")?);
        list.push('\n');
    }
    if files == 0 {
        return Err(format!("no .rs file in {folders:?}").into());
    }
    let path = folder.join("sources.txt");
    fs::write(&path, list)?;
    let what = format!("{files} files of Rust sources, {:.1} MB", total as f64 / 1e6);
    Ok(Input { path, what })
}

/// Those of the packages in `Cargo.lock` that Cargo has unpacked on this machine: all that the
/// benches are built from.
fn packages() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let registries = home.ok_or("no home folder")?.join("registry/src");
    let lock = fs::read_to_string(root.join("Cargo.lock"))?;
    let value = |line: &str, key| Some(line.strip_prefix(key)?.trim_matches('"').to_owned());
    let mut found = Vec::new();
    for registry in fs::read_dir(&registries)? {
        let registry = registry?.path();
        // In a lock file each package's name is on the line before its version.
        for (first, second) in lock.lines().zip(lock.lines().skip(1)) {
            let (Some(name), Some(version)) =
                (value(first, "name = "), value(second, "version = "))
            else {
                continue;
            };
            found.push(registry.join(format!("{name}-{version}")));
        }
    }
    found.retain(|folder| folder.is_dir());
    Ok(found)
}

fn find(folder: &Path, found: &mut Vec<(PathBuf, u64)>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            find(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            // The programs read text.
            && fs::read_to_string(&path).is_ok()
        {
            found.push((path, entry.metadata()?.len()));
        }
    }
    Ok(())
}
