// A buffer for each connection, kept while the connection is idle.
use std::thread;
use std::time::Duration;

struct Connection {
    buffer: Vec<u8>,
}

impl Connection {
    #[inline(never)]
    fn open() -> Self {
        Self { buffer: vec![1; 16_384] } // found here
    }

    #[inline(never)]
    fn read(&mut self, message: &str) -> usize {
        let text = message.to_owned();
        self.buffer[..text.len()].copy_from_slice(text.as_bytes());
        text.len()
    }
}

fn main() {
    let mut idle = Vec::with_capacity(1_000);
    let mut sum = 0;
    for _ in 0..800 {
        let mut connection = Connection::open();
        sum += connection.read("hello");
        idle.push(connection);
        thread::sleep(Duration::from_millis(2));
    }
    println!("{} connections, {sum} bytes", idle.len());
}
