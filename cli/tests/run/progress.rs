//! The progress of a command on a terminal.

use crate::harness::{Run, memledger};
use crate::screen::Screen;
use libtest_mimic::Trial;
use nix::sys::stat::Mode;
use std::fs::{self, File};
use std::io::Write;

pub fn all() -> Vec<Trial> {
    let shows = || {
        it_shows_while_nothing_comes_and_is_gone_at_the_end();
        Ok(())
    };
    vec![Trial::test("progress::it_shows_while_nothing_comes_and_is_gone_at_the_end", shows)]
}

fn it_shows_while_nothing_comes_and_is_gone_at_the_end() {
    let ended = Run::tracked("succeed", &["--report=off", "--trace=t.memledger"]).run();
    let bytes = fs::read(ended.exited(0).path("t.memledger")).expect("the trace");
    let (start, rest) = bytes.split_at(bytes.len() / 2);
    let [pipe, report] = ["pipe", "r.json"].map(|name| ended.path(name));
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let mut command = memledger();
    command.arg("report").arg(&pipe).arg("-o").arg(&report).env_remove("NO_COLOR");
    let mut screen = Screen::start(command, 24, 80);
    let mut pipe = File::options().write(true).open(&pipe).expect("the command reads");
    pipe.write_all(start).expect("it takes the start");
    screen.wait_for(&[" read, "]);
    pipe.write_all(rest).expect("it takes the rest");
    drop(pipe);
    assert!(screen.ended().success());
    screen.wait_until(|text| text.trim().is_empty(), &["an empty screen"]);
    assert!(fs::metadata(report).is_ok());
}
