use super::*;

#[test]
#[cfg(target_os = "linux")]
fn a_child_that_was_forked_while_the_lock_was_held_gets_it() {
    use std::sync::mpsc::channel;
    let (held, is_held) = channel();
    let (release, is_released) = channel::<()>();
    let holder = std::thread::spawn(move || {
        let _changes = changes();
        held.send(()).unwrap();
        let _ = is_released.recv();
    });
    is_held.recv().unwrap();
    // SAFETY: the child does nothing but take the lock, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that waits for ever would be killed by this signal.
        unsafe { libc::alarm(20) };
        drop(changes());
        // SAFETY: ends the child without the destructors of its parent.
        unsafe { libc::_exit(7) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7), "{status:#x}");
    release.send(()).unwrap();
    holder.join().unwrap();
    drop(changes());
}

#[test]
fn a_large_configuration_is_refused() {
    let sentence = |config: TrackEventConfig| config.check().unwrap_err().to_string();
    let long = TrackEventConfig::default().enable("x".repeat(1 << 20));
    assert!(sentence(long).contains("1 patterns of categories and tags with 1048576 bytes"));
    let many = (0..10_000).fold(TrackEventConfig::default(), |all, n| all.disable(n.to_string()));
    assert!(sentence(many).contains("it has 10000 patterns"));
    assert!(TrackEventConfig::all().check().is_ok());
}
