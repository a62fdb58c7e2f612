//! Containers that know whose memory they hold: a small world, filled on four threads.
//!
//! ```text
//! cargo run --example containers
//! ```
//! The report, by name, says what each structure holds, whichever thread and scope it grew in.

use memledger::containers::{
    TaggedBTreeMap, TaggedBox, TaggedHashMap, TaggedString, TaggedVec, TaggedVecDeque,
};
use memledger::{
    Ledger, Name, Tag, TrackingAllocator, alloc_scope, group, tag, tagged, tagged_box,
};
use std::sync::Mutex;
use std::thread;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

group! {
    /// What the world is made of.
    WORLD = "World";
    /// What moves in it.
    CREATURES = "Creatures" in WORLD;
}

const PLACES: Tag = tag!(WORLD, "places");
const PATHS: Tag = tag!(WORLD, "paths");
const HERDS: Tag = tag!(CREATURES, "herds");
const NAMES: Tag = tag!(CREATURES, "names");
const MINDS: Tag = tag!(CREATURES, "minds");
const ASLEEP: Tag = tag!(CREATURES, "herds asleep");

/// Its containers are named where they are made; code that lets them grow need not know.
struct Creature {
    name: TaggedString,
    mind: TaggedBox<dyn Fn(u32) -> u32 + Send>,
    path: TaggedVecDeque<(f32, f32)>,
}

impl Creature {
    fn new(number: u32) -> Self {
        Self {
            name: TaggedString::from_text(NAMES, "creature ") + &number.to_string(),
            mind: tagged_box!(MINDS, move |time: u32| time.wrapping_mul(number)),
            path: TaggedVecDeque::new(PATHS),
        }
    }

    fn walk(&mut self, time: u32) {
        let step = (self.mind)(time) % 100;
        self.path.push_back((step as f32, time as f32));
        if self.path.len() > 20 {
            self.path.pop_front();
        }
    }
}

type World = Mutex<TaggedHashMap<u32, TaggedVec<Creature>>>;

fn populate(world: &World, thread: u32) {
    alloc_scope!("populate");
    for number in 0..500 {
        let mut world = world.lock().expect("no thread panics");
        // The vector is made by `or_default`, and named before it holds anything.
        let herd = world.entry(number % 50).or_default();
        herd.set_tag(HERDS);
        herd.push(Creature::new(thread * 1000 + number));
    }
}

fn main() {
    let _ledger = Ledger::from_env();
    let world: World = Mutex::new(TaggedHashMap::new(PLACES));
    thread::scope(|threads| {
        (0..4).for_each(|number| {
            drop(threads.spawn({
                let world = &world;
                move || populate(world, number)
            }))
        });
    });
    let mut world = world.into_inner().expect("no thread panics");
    alloc_scope!("simulate", {
        for time in 0..30 {
            world.values_mut().flatten().for_each(|creature| creature.walk(time));
        }
    });

    // What is there already changes its name, too.
    for (_, herd) in world.iter_mut().filter(|(place, _)| *place % 10 == 0) {
        herd.set_tag(ASLEEP);
    }

    // A name that is only known now; what is collected takes the tag of where it is made.
    let index = tag!(WORLD, Name::intern(&format!("index of {} places", world.len())));
    let mut by_name = TaggedBTreeMap::new(index);
    for creature in world.values().flatten() {
        by_name.insert(creature.name.clone(), creature.path.len());
    }
    let longest = tagged(index, || by_name.keys().map(|name| name.len()).collect::<TaggedVec<_>>());
    println!("{} creatures, {:?}", by_name.len(), longest.iter().max());
}
