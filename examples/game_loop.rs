//! A small game loop as track events: slices, arguments, a counter, a state and flows, in a file that
//! <https://ui.perfetto.dev> shows.
//!
//! ```sh
//! cargo run --release -p memledger-examples --features perfetto --example game_loop -- game.pftrace
//! ```

use memledger::perfetto::{FlowId, Track, TrackEventConfig, Unit};
use memledger::perfetto::{counter, instant, slice, state, track_event};
use memledger::{Destination, Ledger, TrackingAllocator};
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

memledger::perfetto::categories! {
    GAME = "game": "Frames, and what they consist of";
    PHYSICS = "game.physics": "The steps of the solver" ["slow"];
    LOADING = "loading": "Levels from the disk";
}

struct Body {
    position: f64,
    speed: f64,
}

/// Moves the bodies by one step; returns how many have hit the ground.
fn step(bodies: &mut [Body], seconds: f64) -> u64 {
    slice!(PHYSICS, "step", arg("bodies", bodies.len()), arg("seconds", seconds));
    let mut hits = 0;
    for body in bodies {
        body.speed -= 9.81 * seconds;
        body.position += body.speed * seconds;
        if body.position < 0.0 {
            (body.position, body.speed) = (0.0, -0.8 * body.speed);
            hits += 1;
        }
    }
    hits
}

/// Loads levels on a thread of its own, one for each job that arrives.
fn load_levels(jobs: mpsc::Receiver<(u64, u32)>, levels: mpsc::Sender<Vec<Body>>) {
    for (job, level) in jobs {
        slice!(LOADING, "load", arg("level", level), terminating_flow(FlowId::process_scoped(job)));
        let bodies = (0..level * 100).map(|n| Body { position: f64::from(n), speed: 0.0 });
        if levels.send(bodies.collect()).is_err() {
            return;
        }
    }
}

fn main() -> Result<(), memledger::Error> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "game.pftrace".into());
    let ledger = Ledger::builder().start()?;
    let session = ledger.trace_to(Destination::track_events(&path, TrackEventConfig::all()))?;

    let bodies_track = Track::counter("bodies").unit(Unit::Count).register()?;
    let loader = Track::state("loader").register()?;
    let (send_job, jobs) = mpsc::channel();
    let (send_level, levels) = mpsc::channel();
    let thread = thread::Builder::new().name("loader".into());
    let thread = thread.spawn(move || load_levels(jobs, send_level));

    let mut bodies = Vec::new();
    for frame in 0..120_u32 {
        slice!(GAME, "frame", arg("number", frame));
        if frame.is_multiple_of(40) {
            let (job, level) = (u64::from(frame), frame / 40 + 1);
            state!(LOADING, track(loader), "loading");
            instant!(
                LOADING,
                "level wanted",
                arg("level", level),
                flow(FlowId::process_scoped(job))
            );
            let _ = send_job.send((job, level));
            bodies = levels.recv().unwrap_or_default();
            state!(LOADING, track(loader), "");
            counter!(GAME, track(bodies_track), bodies.len());
        }
        let hits = step(&mut bodies, 1.0 / 60.0);
        if hits > 0 {
            track_event!(
                GAME,
                instant("hits"),
                arg("count", hits),
                named_track("sound", 0, Track::process()),
            );
        }
    }
    drop(send_job);
    if let Ok(thread) = thread {
        let _ = thread.join();
    }
    session.stop();
    let status = session.status();
    println!("{path}: {} events, {} lost", status.events, status.lost_events);
    drop(ledger);
    Ok(())
}
