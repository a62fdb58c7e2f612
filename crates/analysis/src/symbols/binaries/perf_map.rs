//! The functions that a process has made at run time, as it has written them for `perf`: a text of lines
//! `START SIZE NAME`, numbers in hexadecimal. Python (`-X perf`), Node and other virtual machines write it.

use crate::SourceFrame;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// No more of a map is read than this.
const MAX_BYTES: u64 = 256 << 20;

/// How Python names a function in it: `py::QUALIFIED.NAME:FILE`.
const PYTHON: &str = "py::";

/// The functions of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct PerfMap {
    /// The size of the file that was read.
    bytes: u64,
    /// Start, size and name, by start. Of several with one start, the last written comes last.
    functions: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads what the process has written, if it is more than was read.
    pub(super) fn update(&mut self, pid: u32) {
        let Ok(file) = File::open(format!("/tmp/perf-{pid}.map")) else { return };
        let found = file.metadata().ok().filter(|found| found.is_file());
        if let Some(found) = found.filter(|found| found.len() != self.bytes) {
            *self = Self { bytes: found.len(), ..Self::read(file) };
        }
    }

    /// What is no line of a map is left out.
    fn read(map: impl Read) -> Self {
        let lines = BufReader::new(map.take(MAX_BYTES)).split(b'\n').map_while(Result::ok);
        let functions = lines.filter_map(|line| {
            let line = String::from_utf8_lossy(&line);
            let mut parts = line.trim_end().splitn(3, ' ');
            let mut number =
                || u64::from_str_radix(parts.next()?.trim_start_matches("0x"), 16).ok();
            let (start, size) = (number()?, number()?);
            Some((start, size, parts.next()?.to_owned()))
        });
        let mut functions: Vec<_> = functions.collect();
        functions.sort_by_key(|&(start, ..)| start);
        Self { bytes: 0, functions }
    }

    pub(super) fn frame(&self, address: u64) -> Option<SourceFrame> {
        let after = self.functions.partition_point(|&(start, ..)| start <= address);
        let (start, size, name) = self.functions.get(after.checked_sub(1)?)?;
        (address - start < *size).then(|| frame_of(name))
    }
}

/// A function of Python has its module before its name, as tracebacks do not: `keep.Store.load`.
fn frame_of(name: &str) -> SourceFrame {
    let python = name.strip_prefix(PYTHON).and_then(|name| name.split_once(':'));
    let Some((function, file)) = python else {
        return SourceFrame::new(name, None, None);
    };
    let last = file.rsplit('/').next().unwrap_or(file);
    let module = match file.strip_prefix("<frozen ") {
        Some(frozen) => frozen.trim_end_matches('>'),
        None => last.strip_suffix(".py").unwrap_or(last),
    };
    SourceFrame::new(format!("{module}.{function}"), Some(file.to_owned()), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_those_of_the_map() {
        let map = PerfMap::read(
            &b"7f00 b py::Store.load:/home/a/keep.py\n7f0b 0x5 py::_find:<frozen importlib._bootstrap>\n\
               1000 10 old\n1000 10 LazyCompile:*read /app/a b.js:1\nnot a line\n\n9 zz x\n\xff\xfe 1 x"[..],
        );
        let at = |address| {
            let frame: Option<SourceFrame> = map.frame(address);
            frame.map(|frame| (frame.function, frame.file))
        };
        let found = |function: &str, file: Option<&str>| {
            Some((function.to_owned(), file.map(str::to_owned)))
        };
        let load = found("keep.Store.load", Some("/home/a/keep.py"));
        let find = found("importlib._bootstrap._find", Some("<frozen importlib._bootstrap>"));
        assert_eq!([at(0x7f00), at(0x7f0a)], [load.clone(), load]);
        assert_eq!([at(0x7f0b), at(0x7f0f), at(0x7f10)], [find.clone(), find, None]);
        assert_eq!(at(0x100f), found("LazyCompile:*read /app/a b.js:1", None));
        assert_eq!([at(0x1010), at(0), at(u64::MAX)], [None, None, None]);
    }
}
