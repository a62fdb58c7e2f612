// Trees whose children hold their parents: none of them is ever freed.
use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

struct Node {
    _text: [u8; 400],
    parent: RefCell<Option<Rc<Node>>>,
    children: RefCell<Vec<Rc<Node>>>,
}

#[inline(never)]
fn node() -> Rc<Node> {
    let children = RefCell::new(Vec::new());
    Rc::new(Node { _text: [7; 400], parent: RefCell::new(None), children }) // found here
}

#[inline(never)]
fn build() -> usize {
    let root = node();
    for _ in 0..4 {
        let child = node();
        *child.parent.borrow_mut() = Some(root.clone());
        root.children.borrow_mut().push(child);
    }
    let children = root.children.borrow().len();
    children
}

fn main() {
    let mut sum = 0;
    for round in 0..2_000 {
        sum += build();
        if round % 10 == 0 {
            thread::sleep(Duration::from_millis(10));
        }
    }
    println!("{sum}");
}
