//! The files that a recording writes: their names.

use crate::error::Error;
use crate::ledger::problem::ProblemKind;
use crate::ledger::problems;
use crate::platform::os::{self, BlockedSignals};
use crate::trace::sink::file::FileSink;
use memledger_format::words::system_text;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The only process whose children use the variables of the tracker: its number. `memledger run` sets it,
/// since the program's own children inherit its environment. It has no flag, because flags are not inherited.
pub(in crate::ledger) const PARENT: &CStr = c"MEMLEDGER_PARENT";

/// Whether the environment is for this process: `memledger run` has started it, and has seen that no other
/// process writes to its files. `None` if it is for any process.
pub(in crate::ledger) fn is_for_this_process() -> Option<bool> {
    let parent = os::secure_env(PARENT).filter(|parent| !parent.is_empty())?;
    Some(*parent == *os::parent_process_id().to_string())
}

/// Creates the file of a trace; its name may hold `%p` and the like.
pub(in crate::ledger) fn open_trace(path: &Path) -> Result<FileSink, Error> {
    let _signals = BlockedSignals::new();
    let expanded = expand(path, &mut |why| problems::add(ProblemKind::Setting, why));
    let file = FileSink::create(&expanded)?;
    // Only this process has this file: before it replaced itself by `exec`.
    let is_own = path.to_string_lossy().contains("%p") || is_for_this_process() == Some(true);
    if file.path() != expanded && !is_own {
        report_in_use(&expanded, file.path());
    }
    Ok(file)
}

/// Reports that a file has another name than was asked for.
pub(in crate::ledger) fn report_in_use(asked: &Path, used: &Path) {
    problems::add(
        ProblemKind::Output,
        format!("{} is in use, so {} is written instead", asked.display(), used.display()),
    );
}

/// Replaces `%p` by the process id, `%t` by the unix time in seconds, `%e` by the name that the program was
/// started by, and `%%` by a percent sign. Passes `report` one sentence for each other letter after a `%`.
pub(in crate::ledger) fn expand(path: &Path, report: &mut dyn FnMut(String)) -> PathBuf {
    let text = path.as_os_str().as_encoded_bytes();
    if !text.contains(&b'%') {
        return path.to_owned();
    }
    let mut expanded = Vec::new();
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            expanded.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'p') => expanded.extend(os::process_id().to_string().bytes()),
            Some(b't') => {
                let time = os::time_of_day().and_then(|now| now.duration_since(UNIX_EPOCH).ok());
                expanded.extend(time.unwrap_or_default().as_secs().to_string().bytes());
            }
            Some(b'e') => expanded.extend(os::program_name().as_encoded_bytes()),
            Some(b'%') => expanded.push(b'%'),
            other => {
                if let Some(letter) = other.filter(u8::is_ascii_alphabetic).map(char::from) {
                    report(format!(
                        "%{letter} in the name {} stays as it is; what can be put in is %p (process id), %t (unix seconds), %e (executable) and %% (%)",
                        path.display()
                    ));
                }
                expanded.push(b'%');
                expanded.extend(other);
            }
        }
    }
    system_text(expanded).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(name: &str) -> PathBuf {
        expand(Path::new(name), &mut drop)
    }

    #[test]
    fn names_of_files_are_filled_in() {
        let pid = std::process::id();
        for (name, expanded) in [
            ("run.utrace", "run.utrace".to_owned()),
            ("%p/run-%p.utrace", format!("{pid}/run-{pid}.utrace")),
            ("100%%", "100%".to_owned()),
            ("50% of %", "50% of %".to_owned()),
            ("é%p", format!("é{pid}")),
            ("%z%1%", "%z%1%".to_owned()),
        ] {
            assert_eq!(filled(name), Path::new(&expanded), "{name}");
        }
        #[cfg(unix)]
        {
            let path = |bytes: &[u8]| PathBuf::from(system_text(bytes.to_vec()));
            let expected = [b"d\xff/", pid.to_string().as_bytes()].concat();
            assert_eq!(expand(&path(b"d\xff/%p"), &mut drop), path(&expected));
        }
        let executable = std::env::current_exe().unwrap();
        assert_eq!(filled("%e").as_os_str(), executable.file_name().unwrap());
        let seconds = filled("%t").to_str().unwrap().parse::<u64>().unwrap();
        assert!(seconds > 1_700_000_000);
    }
}
