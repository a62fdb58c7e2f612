//! The rules for the clients of a control server.

use crate::platform::os;
use crate::trace::sink::tcp::Address;
use std::fs::File;
use std::hint::black_box;
use std::net::IpAddr;
use std::path::PathBuf;

/// The maximum number of bytes in the name of a file.
const MAX_NAME_BYTES: usize = 255;

/// The rules of one server. Only the program and its environment set them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// The word that a client must send first.
    pub(crate) token: Option<String>,
    /// The folder in which clients may create files.
    pub(crate) folder: Option<PathBuf>,
    /// The hosts, besides this machine, to which clients may send the trace; with or without a
    /// port.
    pub(crate) hosts: Vec<String>,
}

impl Rules {
    /// Sets the rules that are not set yet, from `more`.
    pub(super) fn fill(&mut self, more: Self) {
        self.token = self.token.take().or(more.token);
        self.folder = self.folder.take().or(more.folder);
        if self.hosts.is_empty() {
            self.hosts = more.hosts;
        }
    }

    /// Whether `token` is the right one. The time of the comparison depends only on the length of
    /// `token`.
    pub(super) fn admits(&self, token: &str) -> bool {
        let Some(expected) = &self.token else { return true };
        let (expected, token) = (expected.as_bytes(), token.as_bytes());
        // NOTE: this compares all bytes, so that the time does not depend on how many of them are
        // right.
        let wrong =
            token.iter().enumerate().fold(expected.len() ^ token.len(), |wrong, (i, byte)| {
                black_box(wrong | usize::from(byte ^ expected.get(i).unwrap_or(&0)))
            });
        wrong == 0 && !expected.is_empty()
    }

    /// The address to which the trace may be sent if a client names `text`; otherwise the reason
    /// for the refusal.
    pub(super) fn destination(&self, text: &str) -> Result<Address, String> {
        let address = Address::parse(text).map_err(|error| format!("{error:#}"))?;
        let host = address.host();
        if host.eq_ignore_ascii_case("localhost") {
            // The name is not resolved, because a name server could answer with any machine.
            return Ok(address.at("127.0.0.1"));
        }
        let local = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let allows = |name: &str| self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
        if local || allows(host) {
            return Ok(address);
        }
        // If the program allows the host with one port only, that port is used.
        let allowed = address.with_ports().find(|one| allows(&one.to_string()));
        allowed.ok_or_else(|| format!("the program does not allow traces to be sent to {host}"))
    }

    /// Whether a client at this address may get a profile or figures, which have names of the program as
    /// a trace has: on this machine, and on hosts that may get traces, by their addresses.
    pub(super) fn document(&self, client: IpAddr) -> Result<(), String> {
        let client = client.to_canonical();
        if client.is_loopback() {
            return Ok(());
        }
        let text = match client {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let refused =
            |_| format!("the program does not allow profiles and figures to be sent to {client}");
        self.destination(&text).map(|_| ()).map_err(refused)
    }

    /// Creates a file in the program's folder.
    pub(super) fn create(&self, name: &str) -> Result<(File, PathBuf), String> {
        let Some(folder) = &self.folder else {
            return Err("the program has no folder for traces; set MEMLEDGER_CONTROL_FOLDER or call LedgerBuilder::control_folder".into());
        };
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0', ':']) {
            return Err(format!(
                "{name:?} must be a file name without a folder; the file goes into {}",
                folder.display()
            ));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(format!("a name of {} bytes is too long", name.len()));
        }
        let path = folder.join(name);
        match os::create_in(folder, name) {
            Ok(file) => Ok((file, path)),
            Err(error) => Err(format!("{} cannot be created: {error}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let rules = Rules { token: Some("s3cr3t".into()), ..Rules::default() };
        assert!(rules.admits("s3cr3t"));
        for wrong in ["", "s", "s3cr3", "s3cr3t0", "s3cr3T", "S3cr3t", "s3cr3t\0"] {
            assert!(!rules.admits(wrong), "{wrong:?}");
        }
        assert!(Rules::default().admits("anything"), "there is none");
        let empty = Rules { token: Some(String::new()), ..Rules::default() };
        assert!(!empty.admits(""), "an empty one opens nothing");
    }

    #[test]
    fn what_is_set_stays() {
        let rules = |name: &str| Rules {
            token: Some(name.into()),
            folder: Some(name.into()),
            hosts: vec![name.into()],
        };
        let all = |rules: &Rules| {
            let folder = rules.folder.clone().map(|folder| folder.display().to_string());
            [rules.token.clone(), folder, rules.hosts.first().cloned()]
        };
        let mut filled = Rules { token: Some("first".into()), ..Rules::default() };
        filled.fill(Rules { folder: Some("second".into()), ..Rules::default() });
        assert_eq!(all(&filled), [Some("first".into()), Some("second".into()), None]);
        filled.fill(rules("third"));
        assert_eq!(all(&filled), ["first", "second", "third"].map(|name| Some(name.into())));
        filled.fill(Rules::default());
        assert_eq!(all(&filled), ["first", "second", "third"].map(|name| Some(name.into())));
    }

    #[test]
    fn traces_go_to_this_machine_and_to_allowed_hosts_only() {
        let hosts = vec!["build.example".into(), "10.0.0.7:1981".into(), "fe80::7".into()];
        let rules = Rules { hosts, ..Rules::default() };
        for (asked, gets) in [
            ("localhost", "127.0.0.1"),
            ("LocalHost:1981", "127.0.0.1:1981"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.9.9.9:1", "127.9.9.9:1"),
            ("[::1]:1981", "[::1]:1981"),
            ("build.example", "build.example"),
            ("Build.Example:7", "Build.Example:7"),
            ("10.0.0.7:1981", "10.0.0.7:1981"),
            ("10.0.0.7", "10.0.0.7:1981"),
            ("[fe80::7]:9", "[fe80::7]:9"),
        ] {
            assert_eq!(rules.destination(asked).unwrap().to_string(), gets, "{asked}");
        }
        for asked in [
            "10.0.0.8",
            "10.0.0.7:1982",
            "0.0.0.0",
            "[::]:1981",
            "127.1",
            "2130706433",
            "0x7f000001",
            "::ffff:10.0.0.7",
            "::ffff:127.0.0.1",
            "localhost.evil.example",
            "evil.example",
            "build.example.evil.example",
            "127.0.0.1.evil.example",
        ] {
            let refused = rules.destination(asked).unwrap_err();
            assert!(refused.contains("does not allow"), "{asked}: {refused}");
        }
        for (client, is_allowed) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.7", true),
            ("::ffff:10.0.0.7", true),
            ("fe80::7", true),
            ("10.0.0.8", false),
            ("fe80::8", false),
        ] {
            let allowed = rules.document(client.parse().unwrap());
            assert_eq!(allowed.is_ok(), is_allowed, "{client}");
        }
        for asked in ["", ":1", "127.0.0.1:0", "127.0.0.1:99999", "user@127.0.0.1:x"] {
            assert!(rules.destination(asked).unwrap_err().contains("not allowed"), "{asked}");
        }
    }
}
