//! The names of the files that a recording writes.

use crate::platform::os;
use memledger_format::words::system_text;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Replaces `%p` by the process id, `%t` by the unix time in seconds, `%e` by the name that the program was
/// started by, and `%%` by a percent sign. Passes `report` one sentence for each other letter after a `%`.
pub(crate) fn expand(path: &Path, report: &mut dyn FnMut(String)) -> PathBuf {
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
