//! A command on a terminal of its own, whose screen the test can read.

use memledger_test_support::command::{DEADLINE, status_within};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A command on a terminal.
pub struct Screen {
    pub child: Child,
    terminal: File,
    slave: OwnedFd,
    before: Termios,
    parser: Arc<Mutex<vt100::Parser>>,
}

impl Screen {
    /// Starts the command on a terminal of this size.
    #[expect(unsafe_code, reason = "system calls")]
    pub fn start(mut command: Command, rows: u16, columns: u16) -> Self {
        let pty = openpty(Some(&size(rows, columns)), None).expect("a terminal");
        let before = tcgetattr(&pty.slave).expect("its settings");
        let stream = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        command.stdin(stream()).stdout(stream()).stderr(stream()).env("TERM", "xterm-256color");
        // SAFETY: makes system calls only.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let child = command.spawn().expect("the command runs");
        let terminal = File::from(pty.master);
        let parser = Arc::new(Mutex::new(vt100::Parser::new(nonzero(rows), nonzero(columns), 0)));
        let mut from = terminal.try_clone().expect("a descriptor");
        let to = Arc::clone(&parser);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                to.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..count]);
            }
        });
        Self { child, terminal, slave: pty.slave, before, parser }
    }

    fn parser(&self) -> std::sync::MutexGuard<'_, vt100::Parser> {
        self.parser.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the screen shows.
    pub fn text(&self) -> String {
        self.parser().screen().contents()
    }

    /// Whether any character has a colour.
    pub fn has_colour(&self) -> bool {
        let parser = self.parser();
        let (rows, columns) = parser.screen().size();
        let (rows, columns) = (rows.get(), columns.get());
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let colour = |(row, column)| Some(parser.screen().cell(row, column)?.fgcolor());
        cells.filter_map(colour).any(|colour| colour != vt100::Color::Default)
    }

    /// Types keys.
    pub fn keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Makes the terminal another size.
    #[expect(unsafe_code, reason = "system calls")]
    pub fn resize(&mut self, rows: u16, columns: u16) {
        use std::os::fd::AsRawFd;
        self.parser().screen_mut().set_size(nonzero(rows), nonzero(columns));
        let size = size(rows, columns);
        // SAFETY: reads the size.
        let done = unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(done, 0);
    }

    /// Waits until all of these texts are on the screen.
    #[track_caller]
    pub fn wait_for(&mut self, texts: &[&str]) -> String {
        self.wait_until(|screen| texts.iter().all(|text| screen.contains(text)), texts)
    }

    #[track_caller]
    pub fn wait_until(&mut self, shows: impl Fn(&str) -> bool, what: &[&str]) -> String {
        let start = Instant::now();
        loop {
            let text = self.text();
            if shows(&text) {
                return text;
            }
            if start.elapsed() > DEADLINE {
                let _ = self.child.kill();
                panic!("{what:?} does not come:\n{text}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the command. The terminal is as it was before.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        let status = status_within(DEADLINE, &mut self.child)
            .unwrap_or_else(|| panic!("the command does not end:\n{}", self.text()));
        let after = tcgetattr(&self.slave).expect("its settings");
        assert!(after == self.before, "{after:?} and not {:?}", self.before);
        // What was written before the end may not have been read yet.
        while self.parser().screen().alternate_screen() || self.parser().screen().hide_cursor() {
            assert!(start.elapsed() < DEADLINE, "the screen stays:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(1));
        }
        status
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn nonzero(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("a terminal has a size")
}
