// Rules that are parsed for each request, though they never change.
use std::collections::BTreeMap;

#[inline(never)]
fn parse_rules(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(user, may)| (user.to_owned(), may.to_owned())).collect() // found here
}

#[inline(never)]
fn allowed(rules: &str, user: &str) -> bool {
    parse_rules(rules).get(user).is_some_and(|may| may == "yes")
}

fn main() {
    let rules: String = (0..1_000).map(|user| format!("user{user}={}\n", if user % 3 == 0 { "yes" } else { "no" })).collect();
    let count = (0..1_500).filter(|user| allowed(&rules, &format!("user{}", user % 1_000))).count();
    println!("{count} allowed");
}
