//! Files with a token: for a store on another machine, or for the control server of a program.

use crate::error::CliError;
use std::fs;
use std::path::Path;

/// The largest file that is read for a token, in bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// Reads the token in the first line of a file that no other user may be able to read. `check`
/// returns what is wrong with a token.
pub fn read_token<E: std::fmt::Display>(
    path: &Path,
    check: impl Fn(&str) -> Result<(), E>,
) -> Result<String, CliError> {
    let failed = |what: String| {
        CliError::Failed(format!("cannot read the token from {}: {what}", path.display()))
    };
    let metadata = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(failed(format!("it is not a file of at most {MAX_FILE_BYTES} bytes")));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(failed(format!(
                "other users can read or write it (mode {mode:03o}); run chmod 600 on it first"
            )));
        }
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let token = text.lines().next().unwrap_or_default().trim_end();
    check(token).map_err(|error| failed(error.to_string()))?;
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_store::check_token;

    const TOKEN: &str = "correct-horse-battery";

    fn file(content: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        }
        let _ = mode;
        file
    }

    #[test]
    fn a_token_that_is_none_is_named_and_not_shown() {
        let cases = [(file("short\n", 0o600), "this one has 5"), (file(TOKEN, 0o644), "mode 644")];
        // On Windows, files of other users cannot be read, unless someone has changed that.
        for (file, says) in cases.into_iter().take(if cfg!(unix) { 2 } else { 1 }) {
            let error = read_token(file.path(), check_token).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains(TOKEN), "{error}");
        }
        if cfg!(unix) {
            let error = read_token(Path::new("/dev/zero"), check_token).unwrap_err().to_string();
            assert!(error.contains("not a file of at most 1024 bytes"), "{error}");
        }
        assert!(read_token(Path::new("/no/such/file"), check_token).is_err());
        let token = read_token(file(&format!("{TOKEN}\n"), 0o600).path(), check_token).unwrap();
        assert_eq!(token, TOKEN, "without the end of its line");
    }
}
