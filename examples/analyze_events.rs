//! A program that records events of its own, and the analysis of them, in one file.
//!
//! ```sh
//! cargo run --release --example analyze_events                 # records a trace, then analyses it
//! cargo run --release --example analyze_events -- run.utrace   # analyses one that is there
//! ```
//! The analysis is done in one pass together with that of the memory, and with a second one that
//! counts the events of every kind.

use memledger::events::{channel, event, log, log_scope};
use memledger::{Error, Ledger, TrackingAllocator};
use memledger_analysis::Analyzer;
use memledger_analysis::read::{DefinitionRef, EventAnalyzer, Scalar, Visitor, read};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

channel! {
    /// Who buys what.
    SHOP = "Shop";
}

event! {
    /// A customer is known by an id from here on: important, so that late readers know it, too.
    Customer = "Shop"."Customer" [Important, NoSync] {
        Name: WideString,
        Id: DefinitionId<u32>,
    }
    /// Something is bought: in one order with what other threads log.
    Order = "Shop"."Order" { Customer: Reference<Customer>, Item: AnsiString, Prices: [u64] }
    /// A customer is served: a scope, in which orders are made.
    Serve = "Shop"."Serve" [NoSync] { Till: u8 }
}

const CUSTOMERS: [&str; 3] = ["Ada", "Grüße", "Линус"];
const ITEMS: [&str; 2] = ["bread", "cheese"];

fn serve(till: u8) -> Vec<String> {
    let mut receipts = Vec::new();
    for number in 0..100_u32 {
        log_scope!(timed: SHOP, Serve { Till: till });
        let customer = number % CUSTOMERS.len() as u32;
        for item in &ITEMS[..1 + number as usize % 2] {
            let prices = (1..=u64::from(till) + 1).collect::<Vec<_>>();
            log!(SHOP, Order { Customer: customer, Item: *item, Prices: &prices });
        }
        receipts.push(format!("{} has paid", CUSTOMERS[customer as usize]));
    }
    receipts
}

fn record(path: &Path) -> Result<(), Error> {
    let _ledger =
        Ledger::builder().trace_to_file(path).channels(["memory", "scope", "shop"]).start()?;
    for (id, name) in (0..).zip(CUSTOMERS) {
        log!(SHOP, Customer { Name: name, Id: id });
    }
    let till =
        |number| thread::Builder::new().name(format!("till {number}")).spawn(move || serve(number));
    let tills = [till(0), till(1)];
    for till in tills.into_iter().flatten() {
        till.join().expect("a till does not panic");
    }
    Ok(())
}

/// What the analysis finds out.
#[derive(Default)]
struct Sales {
    customers: HashMap<DefinitionRef, String>,
    /// By name of the customer: orders, and what they cost.
    paid: BTreeMap<String, (u64, u64)>,
    /// By thread: customers served, and the longest time that took, in nanoseconds.
    tills: BTreeMap<String, (u64, u64)>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let path = given.clone().unwrap_or_else(|| std::env::temp_dir().join("shop.utrace"));
    if given.is_none() {
        record(&path)?;
    }

    let mut sales = EventAnalyzer::new(Sales::default())
        .on("Shop", "Customer", ["Name"], |sales, event, [name]| {
            if let (Some(key), Ok(name)) = (event.definition(), name.text()) {
                sales.customers.insert(key, name.into_owned());
            }
        })
        .on("Shop", "Order", ["Customer", "Prices"], |sales, _, [customer, prices]| {
            let name = customer.reference().ok().and_then(|key| sales.customers.get(&key));
            let name = name.map_or("somebody", |name| name);
            let sum = prices.elements().map_or(0, |prices| prices.filter_map(Scalar::as_u64).sum());
            let (orders, paid) = sales.paid.entry(name.to_owned()).or_default();
            (*orders, *paid) = (*orders + 1, *paid + sum);
        })
        .on_leave("Shop", "Serve", |sales, scope| {
            let thread = scope.thread().map_or("nobody", |thread| &thread.name);
            let time = scope.left().zip(scope.entered()).map_or(0, |(end, start)| end - start);
            let (served, longest) = sales.tills.entry(thread.to_owned()).or_default();
            (*served, *longest) = (*served + 1, time.max(*longest));
        })
        .on_damage(|_, damage| eprintln!("{}", damage.what));
    let mut kinds =
        EventAnalyzer::new(BTreeMap::<String, u64>::new()).on("*", "*", [], |kinds, event, []| {
            *kinds.entry(event.event.event_type.name()).or_default() += 1;
        });
    let mut memory = Analyzer::new();
    let analyzers: [&mut dyn Visitor; 3] = [&mut memory, &mut sales, &mut kinds];
    read(File::open(&path)?, &mut Vec::from(analyzers))?;

    for problem in sales.problems() {
        eprintln!("{problem}");
    }
    for (name, (orders, paid)) in &sales.state.paid {
        println!("{name} has paid {paid} for {orders} orders");
    }
    for (thread, (served, longest)) in &sales.state.tills {
        println!("{thread} has served {served} customers, for {longest} ns at the longest");
    }
    for (name, events) in &kinds.state {
        println!("{events:6} {name}");
    }
    let totals = memory.report().totals;
    println!("{} allocations, {} bytes at the peak", totals.allocations, totals.peak_bytes);
    Ok(())
}
