// limit: thread | highlight
// Pages through mpsc channels: load, highlight, write; highlighting takes longest.
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

#[inline(never)]
fn load(i: u64) -> Vec<u64> {
    (0..4000).map(|k| k * 2654435761 ^ i).collect()
}

#[inline(never)]
fn highlight(page: &[u64]) -> u64 {
    let mut h = 7u64;
    for _ in 0..30 {
        for v in page {
            h = h.rotate_left(5).wrapping_mul(0x517cc1b727220a95) ^ v;
        }
    }
    h
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(2.0, |s| s.parse().unwrap());
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let (to_highlight, pages) = sync_channel::<Vec<u64>>(8);
    let (to_write, marked) = sync_channel::<u64>(8);
    let loader = thread::Builder::new().name("loader".into()).spawn(move || {
        let mut i = 0;
        while Instant::now() < until {
            i += 1;
            to_highlight.send(load(i)).unwrap();
        }
    }).unwrap();
    let marker = thread::spawn(move || {
        for page in pages {
            to_write.send(highlight(&page)).unwrap();
        }
    });
    let sum: u64 = marked.iter().fold(0, |a, b| a ^ b);
    loader.join().unwrap();
    marker.join().unwrap();
    println!("{sum}");
}
