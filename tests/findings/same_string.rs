// The same few texts, one block for each row that has them.
use std::thread;
use std::time::Duration;

struct Row {
    country: String,
    number: u32,
}

#[inline(never)]
fn load(rows: &mut Vec<Row>) {
    for number in 0..100_000 {
        rows.push(Row { country: "Kingdom of the Netherlands".to_owned(), number }); // found here
    }
}

fn main() {
    let mut rows = Vec::with_capacity(100_000);
    load(&mut rows);
    thread::sleep(Duration::from_millis(300));
    let long = rows.iter().filter(|row| row.country.len() > 10 && row.number > 10).count();
    println!("{long}");
}
