//! Who may come in: this machine, and with a token others.

use crate::commands::CliError;
use memledger::remote::store::check_token;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use subtle::ConstantTimeEq;

/// Nobody needs to read more of a token's file.
const MOST: u64 = 1024;

/// The rule for both ports.
#[derive(Debug)]
pub struct Access {
    token: Option<String>,
}

impl Access {
    /// To listen on `address`. Where other machines can come in they need a token.
    pub fn new(address: IpAddr, token_file: Option<&Path>) -> Result<Self, CliError> {
        let token = token_file.map(read_token).transpose()?;
        if token.is_none() && !address.is_loopback() {
            return Err(CliError::Usage(format!(
                "--listen {address} lets other machines in, and for that they need a token: give \
                 --token-file FILE as well"
            )));
        }
        Ok(Self::with(token))
    }

    /// Requires this token; without one, only clients of this machine are accepted.
    pub fn with(token: Option<String>) -> Self {
        Self { token }
    }

    /// Whether this peer has to show the token.
    pub fn needs_token(peer: SocketAddr) -> bool {
        !peer.ip().to_canonical().is_loopback()
    }

    /// Whether this peer, who shows this token, may come in. Takes as long for a token that is
    /// nearly right.
    pub fn allows(&self, peer: SocketAddr, shown: Option<&str>) -> bool {
        if !Self::needs_token(peer) {
            return true;
        }
        match (&self.token, shown) {
            (Some(token), Some(shown)) => token.as_bytes().ct_eq(shown.as_bytes()).into(),
            _ => false,
        }
    }
}

/// The token in a file that nobody else can read.
pub fn read_token(path: &Path) -> Result<String, CliError> {
    let failed = |what: String| {
        CliError::Failed(format!("cannot take the token from {}: {what}", path.display()))
    };
    let metadata = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > MOST {
        return Err(failed(format!("it is not a file of at most {MOST} bytes")));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(failed(format!(
                "others can read or write it (mode {mode:03o}); chmod 600 it first"
            )));
        }
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let token = text.trim_end();
    check_token(token).map_err(|error| failed(error.to_string()))?;
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery";

    fn file(content: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        }
        file
    }

    #[test]
    fn this_machine_needs_none_and_others_the_right_one() {
        let file = file(&format!("{TOKEN}\n"), 0o600);
        let any: IpAddr = "0.0.0.0".parse().unwrap();
        let with = Access::new(any, Some(file.path())).unwrap();
        let without = Access::new("127.0.0.1".parse().unwrap(), None).unwrap();
        for local in ["127.0.0.1:9", "127.8.8.8:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            let local = local.parse().unwrap();
            assert!(with.allows(local, None) && without.allows(local, Some("wrong")));
        }
        for other in ["192.0.2.1:9", "[2001:db8::1]:9", "[::ffff:192.0.2.1]:9"] {
            let other = other.parse().unwrap();
            assert!(with.allows(other, Some(TOKEN)));
            assert!(!with.allows(other, None) && !with.allows(other, Some("")));
            assert!(!with.allows(other, Some(&TOKEN[1..])));
            assert!(!without.allows(other, Some(TOKEN)) && !without.allows(other, None));
        }
    }

    #[test]
    fn other_machines_are_let_in_with_a_token_only() {
        for address in ["0.0.0.0", "192.0.2.1", "::"] {
            let error = Access::new(address.parse().unwrap(), None).unwrap_err();
            assert!(matches!(error, CliError::Usage(_)));
            assert!(error.to_string().contains(address), "{error}");
        }
        assert!(Access::new("::1".parse().unwrap(), None).is_ok());
    }

    #[test]
    fn a_token_that_is_none_is_named_and_not_shown() {
        let cases =
            [(file("short\n", 0o600), "and this one has 5"), (file(TOKEN, 0o644), "mode 644")];
        for (file, says) in cases {
            let error = read_token(file.path()).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains(TOKEN), "{error}");
        }
        let error = read_token(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("not a file of at most 1024 bytes"), "{error}");
        assert!(read_token(Path::new("/no/such/file")).is_err());
    }
}
