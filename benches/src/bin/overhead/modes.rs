//! The ways a program is run.

use std::path::Path;
use std::process::Command;

/// One way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// What it does, for the reader of the document.
    pub(crate) meaning: &'static str,
    /// Which of the programs' binaries.
    pub(crate) binary: &'static str,
    /// `MEMLEDGER_TRACE`.
    pub(crate) file: Option<&'static str>,
    /// Whether `MEMLEDGER_REPORT` names a file.
    pub(crate) report: bool,
    /// `MEMLEDGER_STACKS`.
    pub(crate) stacks: Option<&'static str>,
}

/// The first, which all ratios refer to.
pub(crate) const PLAIN: Mode = Mode {
    name: "plain",
    meaning: "memledger is not linked",
    binary: "program_plain",
    file: None,
    report: false,
    stacks: None,
};

/// Counts calls, for the check; its times are not shown.
pub(crate) const COUNTED: Mode = Mode { name: "counted", binary: "program_counted", ..PLAIN };

const LINKED: Mode =
    Mode { name: "off", meaning: "linked, nothing started", binary: "program_memledger", ..PLAIN };

const OURS: [Mode; 9] = [
    LINKED,
    Mode {
        name: "/dev/null",
        meaning: "every event, written to nowhere",
        file: Some("/dev/null"),
        ..LINKED
    },
    Mode {
        name: "compact file",
        meaning: "every event, to a `.memledger` file",
        file: Some("trace.memledger"),
        ..LINKED
    },
    Mode {
        name: "compact, stacks",
        meaning: "the same, each allocation with its call stack",
        file: Some("trace.memledger"),
        stacks: Some("on"),
        ..LINKED
    },
    Mode {
        name: "compact, sampled",
        meaning: "the same, with the call stacks of a sample: one byte in 512 KiB",
        file: Some("trace.memledger"),
        stacks: Some("sample:512KiB"),
        ..LINKED
    },
    Mode {
        name: "file",
        meaning: "every event, to a plain `.utrace` file",
        file: Some("trace.utrace"),
        ..LINKED
    },
    Mode {
        name: "report",
        meaning: "the report of the in-process analyzer, as JSON at the end",
        report: true,
        ..LINKED
    },
    Mode {
        name: "compact file + report",
        meaning: "both",
        file: Some("trace.memledger"),
        report: true,
        ..LINKED
    },
    Mode {
        name: "file + report",
        meaning: "both",
        file: Some("trace.utrace"),
        report: true,
        ..LINKED
    },
];

const PEERS: [Mode; 3] = [
    Mode {
        name: "70 nops",
        meaning: "the system's allocator, and as many instructions that do nothing as the hook has",
        binary: "program_nops",
        ..PLAIN
    },
    Mode {
        name: "tracking-allocator",
        meaning: "0.4, with a tracker that counts allocations and frees",
        binary: "program_tracking",
        ..PLAIN
    },
    Mode {
        name: "dhat",
        meaning: "0.3, its defaults: 10 frames, `dhat-heap.json` at the end",
        binary: "program_dhat",
        ..PLAIN
    },
];

/// All of them, the plain one first.
pub(crate) fn all(peers: bool) -> Vec<Mode> {
    let peers = if peers { &PEERS[..] } else { &[] };
    std::iter::once(&PLAIN).chain(&OURS).chain(peers).copied().collect()
}

/// Those of `modes` that have these names, and the plain one; all, if there are no names.
pub(crate) fn named(modes: &[Mode], names: &[String]) -> Result<Vec<Mode>, String> {
    let known = |name: &str| modes.iter().any(|mode| mode.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all = modes.iter().map(|mode| format!("`{}`", mode.name)).collect::<Vec<_>>();
        return Err(format!("no mode is called `{unknown}`; there are {}", all.join(", ")));
    }
    let is_asked = |mode: &&Mode| {
        names.is_empty() || **mode == PLAIN || names.iter().any(|name| name == mode.name)
    };
    Ok(modes.iter().filter(is_asked).copied().collect())
}

impl Mode {
    /// Whether memledger records something.
    pub(crate) fn records(&self) -> bool {
        self.file.is_some() || self.report
    }

    /// Whether `other` is the same without call stacks.
    pub(crate) fn is_without_stacks(&self, other: &Self) -> bool {
        self.stacks.is_some()
            && other.stacks.is_none()
            && (other.file, other.report) == (self.file, self.report)
    }

    /// Whether it is another tracker.
    pub(crate) fn is_peer(&self) -> bool {
        PEERS.contains(self)
    }

    /// Whether a trace is to be found afterwards.
    pub(crate) fn keeps_trace(&self) -> Option<&'static str> {
        self.file.filter(|file| !file.starts_with('/'))
    }

    /// The program's environment, in which nothing of the user's own is left.
    pub(crate) fn set(&self, command: &mut Command, folder: &Path) {
        for name in
            ["MEMLEDGER_CHANNELS", "MEMLEDGER_TRACE", "MEMLEDGER_REPORT", "MEMLEDGER_STACKS"]
        {
            command.env_remove(name);
        }
        if let Some(stacks) = self.stacks {
            command.env("MEMLEDGER_STACKS", stacks);
        }
        if let Some(file) = self.file {
            command.env("MEMLEDGER_TRACE", folder.join(file));
        }
        if self.report {
            command.env("MEMLEDGER_REPORT", folder.join("report.json"));
        } else if self.file.is_some() {
            command.env("MEMLEDGER_REPORT", "off");
        }
    }
}
