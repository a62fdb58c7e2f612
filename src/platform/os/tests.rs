//! What the page promises, on each system.

use super::*;

#[test]
fn a_thread_is_alive_as_long_as_it_runs_and_has_its_name() {
    let (to_thread, wait) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("a ä b".to_owned()).spawn(move || {
        tell.send((thread_id(), thread_name())).unwrap();
        wait.recv().unwrap_err();
    });
    let (id, name) = told.recv().unwrap();
    let mut expected = ThreadName::default();
    expected[..6].copy_from_slice("a ä b".as_bytes());
    assert_eq!((name, thread_name_of(id), is_thread_alive(id)), (expected, Some(name), true));
    drop(to_thread);
    thread.unwrap().join().unwrap();
    // The system can list it for a moment longer.
    let begin = now();
    while is_thread_alive(id) {
        assert!(now() - begin < 20_000_000_000, "the thread has ended");
    }
}

#[test]
fn work_on_a_new_thread_has_run_when_the_call_returns() {
    let own = thread_id();
    assert_ne!(run_on_new_thread(STACK, thread_id), own);
}

#[test]
fn pages_that_are_written_are_resident_and_anonymous() {
    let block = vec![1_u8; 8 << 20];
    let memory = resident_memory(|| {}).unwrap();
    let at = block.as_ptr().addr() as u64;
    let has = |range: &&AnonymousRange| (range.start..range.start + range.bytes).contains(&at);
    let range = memory.anonymous.iter().find(has).unwrap();
    assert!(range.resident_bytes >= 8 << 20, "{range:?}");
    let [now, most, _] = rss_sums().unwrap();
    assert!(most >= now && now >= 8 << 20, "{now} {most}");
    assert!(memory.stacks > 0 && memory.binaries > 0, "{memory:?}");
}
