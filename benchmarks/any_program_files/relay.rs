// limit: thread | decode|relay
// A Condvar queue between a receiver and a pool of one decoder; results over an mpsc channel to main.
use std::collections::VecDeque;
use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

type Shared = Arc<(Mutex<VecDeque<Vec<u8>>>, Condvar)>;

#[inline(never)]
fn decode(packet: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &b in packet {
        crc ^= u32::from(b);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB88320 & (0u32.wrapping_sub(crc & 1)));
        }
    }
    !crc
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(2.0, |s| s.parse().unwrap());
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let shared: Shared = Arc::new((Mutex::new(VecDeque::new()), Condvar::new()));
    let (out, results) = mpsc::channel();
    let queue = Arc::clone(&shared);
    let receiver = thread::spawn(move || {
        let mut i = 0u8;
        while Instant::now() < until {
            let mut held = queue.0.lock().unwrap();
            while held.len() >= 16 {
                held = queue.1.wait(held).unwrap();
            }
            held.push_back(vec![i; 9000]);
            i = i.wrapping_add(1);
            queue.1.notify_all();
        }
        queue.0.lock().unwrap().push_back(Vec::new());
        queue.1.notify_all();
    });
    let queue = Arc::clone(&shared);
    let decoder = thread::spawn(move || loop {
        let mut held = queue.0.lock().unwrap();
        while held.is_empty() {
            held = queue.1.wait(held).unwrap();
        }
        let packet = held.pop_front().unwrap();
        queue.1.notify_all();
        drop(held);
        if packet.is_empty() {
            return;
        }
        out.send(decode(&packet)).unwrap();
    });
    let sum = results.iter().fold(0u32, |a, b| a ^ b);
    receiver.join().unwrap();
    decoder.join().unwrap();
    println!("{sum}");
}
